//! Recordings of a node that runs.

use crate::node::Node;
use crate::scheduling::Scheduling;
use std::path::{Path, PathBuf};
use stile_api::{Happened, Problem, Reason, RecordingView};
use stile_recording::{Header, Recorded, Recorder};
use stile_results::model::Params;
use tracing::warn;

impl Node {
    /// Records from now on, in a file of this name in the folder of recordings. A recording tells of one domain, so
    /// after a change of the domain it goes on in a file of its own: `a-2.rec` after `a.rec`.
    pub fn record(&self, name: &str) -> Result<RecordingView, Problem> {
        let path = self.recording_path(name)?;
        let scheduling = self.scheduling.read();
        let mut recording = self.recording.lock();
        if let Some(running) = &*recording {
            let busy = format!("{} is being recorded already", running.path().display());
            return Err(Problem::new(Reason::Conflict, busy).remedy("end that recording first"));
        }
        if path.exists() {
            let there = format!("{} is there already", path.display());
            return Err(Problem::new(Reason::Conflict, there).remedy("choose another name"));
        }
        let (recorder, view) = self.begin(&path, &scheduling)?;
        *recording = Some(recorder);
        Ok(view)
    }

    fn begin(&self, path: &Path, scheduling: &Scheduling) -> Result<(Recorder, RecordingView), Problem> {
        let header = Header::new(&scheduling.policy, &scheduling.pcpus, "a node", Params::default());
        let recorder = Recorder::start(path, header.with_caps(scheduling.caps), &*self.as_domain)
            .map_err(|e| Problem::of(Reason::Unsupported, "nothing is recorded", &e))?;
        self.vms().iter().filter_map(|vm| vm.machine()).for_each(|machine| recorder.name(machine.vm.vcpu_set()));
        let path = path.display().to_string();
        self.bus().tell(Happened::Recording { path: path.clone() });
        Ok((recorder, RecordingView { path, events: None, lost: None }))
    }

    /// The recording under way.
    pub fn recording(&self) -> Option<RecordingView> {
        let path = self.recording.lock().as_ref()?.path().display().to_string();
        Some(RecordingView { path, events: None, lost: None })
    }

    /// Ends the recording under way.
    pub fn end_record(&self) -> Result<RecordingView, Problem> {
        self.finish("it was ended").unwrap_or_else(|| Err(Problem::new(Reason::Conflict, "nothing is being recorded")))
    }

    /// The domain has changed: a recording under way goes on in its next file, where there is something to record.
    pub(crate) fn go_on_recording(&self) {
        let Some(path) = self.recording.lock().as_ref().map(|recorder| recorder.path().to_owned()) else { return };
        if let Some(Err(problem)) = self.finish("the domain was changed") {
            warn!("{problem}");
        }
        let scheduling = self.scheduling.read();
        let mut recording = self.recording.lock();
        if recording.is_some() {
            return;
        }
        match next_part(&path).map(|next| self.begin(&next, &scheduling)) {
            Some(Ok((recorder, _))) => *recording = Some(recorder),
            Some(Err(problem)) => warn!("{} is not gone on with: {problem}", path.display()),
            None => warn!("{} is not gone on with: its next files are there already", path.display()),
        }
    }

    fn finish(&self, why: &str) -> Option<Result<RecordingView, Problem>> {
        let recorder = self.recording.lock().take()?;
        let path = recorder.path().display().to_string();
        let finished = recorder.finish();
        self.bus().tell(Happened::Recorded { path: path.clone(), why: why.to_owned() });
        Some(match finished {
            Ok(Recorded { events, lost }) => Ok(RecordingView { path, events: Some(events), lost: Some(lost) }),
            Err(e) => Err(Problem::of(Reason::Unsupported, format_args!("{path} is not complete"), &e)),
        })
    }

    fn recording_path(&self, name: &str) -> Result<PathBuf, Problem> {
        let Some(folder) = &self.options.recordings else {
            return Err(Problem::new(Reason::Forbidden, "this node has no folder for recordings")
                .remedy("start it with --recordings FOLDER"));
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.bytes().all(is_name) {
            return Err(Problem::new(Reason::Invalid, "name: not the name of a recording")
                .remedy("1 to 64 letters, digits, `.`, `_` and `-` are accepted, not beginning with `.`"));
        }
        Ok(folder.join(name))
    }
}

/// The file after this one: `a-2.rec` after `a.rec`, `a-3.rec` after that. Files that are there already are passed
/// over, up to a thousandth.
fn next_part(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let (stem, part) = match stem.rsplit_once('-').map(|(stem, part)| (stem, part.parse::<u32>())) {
        Some((stem, Ok(part))) => (stem, part),
        _ => (stem, 1),
    };
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    (part + 1..=1000).map(|part| path.with_file_name(format!("{stem}-{part}{extension}"))).find(|path| !path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_recording_are_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(next_part(&path("a.rec")), Some(path("a-2.rec")));
        assert_eq!(next_part(&path("a-2.rec")), Some(path("a-3.rec")));
        assert_eq!(next_part(&path("run-of-may")), Some(path("run-of-may-2")));
        std::fs::write(path("a-3.rec"), "").unwrap();
        assert_eq!(next_part(&path("a-2.rec")), Some(path("a-4.rec")));
        assert_eq!(next_part(&path("a-1000.rec")), None);
    }
}

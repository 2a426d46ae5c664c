//! Recordings of a node that runs.

use crate::node::Node;
use std::path::PathBuf;
use stile_api::{Happened, Problem, Reason, RecordingView};
use stile_recording::{Header, Recorded, Recorder};
use stile_results::model::Params;
use tracing::warn;

impl Node {
    /// Records from now on, in a file of this name in the folder of recordings. A change of the domain ends it.
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
        let header = Header::new(&scheduling.policy, &scheduling.pcpus, "a node", Params::default());
        let recorder = Recorder::start(&path, header, &*self.as_domain)
            .map_err(|e| Problem::of(Reason::Unsupported, "nothing is recorded", &e))?;
        self.vms().iter().filter_map(|vm| vm.machine()).for_each(|machine| recorder.name(machine.vm.vcpu_set()));
        *recording = Some(recorder);
        let path = path.display().to_string();
        self.bus().tell(Happened::Recording { path: path.clone() });
        Ok(RecordingView { path, events: None, lost: None })
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

    /// Ends the recording under way, if there is one, for this reason.
    pub(crate) fn end_recording(&self, why: &str) {
        if let Some(Err(problem)) = self.finish(why) {
            warn!("{problem}");
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

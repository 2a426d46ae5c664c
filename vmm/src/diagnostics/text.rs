//! Diagnostics as text for people: `warning: MESSAGE`, and below it the remedy, if the message has one.

use std::fmt::{self, Write};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The format.
pub(super) struct Text {
    /// The start of the program, if lines have their time (unit: s since then), source and context.
    began: Option<Instant>,
}

impl Text {
    pub(super) fn new(is_detailed: bool) -> Self {
        Self { began: is_detailed.then(Instant::now) }
    }
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        if let Some(began) = self.began {
            write!(out, "{:>8.3} ", began.elapsed().as_secs_f64())?;
        }
        out.write_str(prefix(*metadata.level()))?;
        if self.began.is_some() {
            write!(out, "{}: ", metadata.target())?;
            for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map_or("", |fields| fields.fields.as_str());
                write!(out, "{}{{{fields}}}: ", span.name())?;
            }
        }
        let mut parts = Parts::default();
        event.record(&mut parts);
        writeln!(out, "{}{}{}", parts.message.trim_end(), parts.fields, parts.remedy)
    }
}

/// The beginning of a line of this level. Notes of progress have none.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        Level::INFO => "",
        Level::DEBUG => "debug: ",
        Level::TRACE => "trace: ",
    }
}

/// The parts of an event, each ready to be printed.
#[derive(Default)]
struct Parts {
    message: String,
    fields: String,
    remedy: String,
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "remedy" => write!(self.remedy, "\n  remedy: {value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Page {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn told(is_detailed: bool, tell: impl FnOnce()) -> String {
        let page = Page::default();
        let format = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(page.clone())
            .event_format(Text::new(is_detailed))
            .finish();
        tracing::subscriber::with_default(format, tell);
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_says_its_level_and_what_to_do_and_a_note_is_read_as_it_is() {
        let lines = told(false, || {
            tracing::warn!(remedy = "stop it", "it runs {}", "on");
            tracing::info!("round 1\n");
            tracing::error!(code = 3, "no");
        });
        assert_eq!(lines, "warning: it runs on\n  remedy: stop it\nround 1\nerror: no code=3\n");
    }

    #[test]
    fn a_detailed_line_has_its_time_its_source_and_the_vm_and_vcpu_it_is_about() {
        let line = told(true, || {
            let vm = tracing::info_span!("vm", vm = "web").entered();
            let _vcpu = tracing::info_span!("vcpu", index = 1).entered();
            tracing::debug!(runs = 2, "ended");
            drop(vm);
        });
        let (time, rest) = line.trim_start().split_once(' ').unwrap();
        assert!(time.parse::<f64>().unwrap() >= 0.0);
        assert_eq!(rest, "debug: stile::diagnostics::text::tests: vm{vm=\"web\"}: vcpu{index=1}: ended runs=2\n");
    }
}

use super::*;
use crate::vm::Payer;
use std::sync::mpsc;
use stile_sched::Time;
use stile_sched::time::thread_cpu_time;

fn show(line: impl Fn(&str) + Send + Sync + 'static) -> Sink {
    let show = move |text: &str| {
        line(text);
        Ok(())
    };
    Sink::Lines { place: "a test".into(), show: Arc::new(show) }
}

#[test]
fn bytes_become_lines_and_the_last_one_is_not_lost() {
    let buffer = Arc::default();
    let mut console = Console::new("vm", Sink::Buffer(Arc::clone(&buffer)));
    console.write_all(b"one\r\ntw").unwrap();
    console.write_all(b"o\nthree").unwrap();
    drop(console);
    assert_eq!(*buffer.lock().unwrap(), b"one\ntwo\nthree\n");
}

#[test]
fn lines_are_shown_with_the_name_and_without_control_characters_before_the_console_is_gone() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&shown);
    let mut console = Console::new("vm", show(move |line| sink.lock().unwrap().push(line.to_owned())));
    console.write_all(b"a\x1b[2Jb\tc\nd").unwrap();
    drop(console);
    assert_eq!(*shown.lock().unwrap(), ["[vm] a\u{fffd}[2Jb\tc", "[vm] d"]);
}

#[test]
fn both_of_two_places_get_all_of_it_and_each_in_its_own_form() {
    let (buffer, shown) = (Arc::default(), Arc::new(Mutex::new(Vec::new())));
    let lines = Arc::clone(&shown);
    let second = show(move |line| lines.lock().unwrap().push(line.to_owned()));
    let mut console = Console::new("vm", Sink::Both(Box::new((Sink::Buffer(Arc::clone(&buffer)), second))));
    console.write_all(b"one\ntwo").unwrap();
    drop(console);
    assert_eq!(*buffer.lock().unwrap(), b"one\ntwo\n");
    assert_eq!(*shown.lock().unwrap(), ["[vm] one", "[vm] two"]);
}

/// Keeps what it paid.
#[derive(Default)]
struct Pays(Mutex<Nanos>);

impl Payer for Pays {
    fn pays(&self, time: Nanos) -> Time {
        let mut paid = self.0.lock().unwrap();
        *paid += time;
        Time(0)
    }
}

/// Uses so much CPU time.
fn work(time: Nanos) {
    let until = thread_cpu_time() + time;
    while thread_cpu_time() < until {}
}

#[test]
fn the_writing_threads_time_is_paid_by_who_printed_when_it_prints_again() {
    const LINE: Nanos = Nanos::from_millis(2);
    let sink = || show(|_| work(LINE));
    for sink in [sink(), Sink::Both(Box::new((Sink::Discard, sink())))] {
        let (payer, idle) = (Arc::new(Pays::default()), Arc::new(Pays::default()));
        let mut console = Console::new("vm", sink).paid_by(PaidBy::from(Arc::clone(&payer)));
        let mut other = Console::new("other", show(|_| ())).paid_by(PaidBy::from(Arc::clone(&idle)));
        console.write_all(b"one\ntwo\nthree\n").unwrap();
        settle();
        assert_eq!(*payer.0.lock().unwrap(), Nanos::ZERO, "nobody pays before it prints again");
        [&mut console, &mut other].iter_mut().for_each(|console| console.write_all(b"four").unwrap());
        let paid = *payer.0.lock().unwrap();
        assert!(paid.0 >= 3 * LINE.0 && *idle.0.lock().unwrap() < LINE, "{paid:?}");
        console.write_all(b"").unwrap();
        assert_eq!(*payer.0.lock().unwrap(), paid, "it pays once");
    }
}

#[test]
fn a_line_is_looked_at_on_the_thread_that_printed_it() {
    let seen = Arc::new(Mutex::new(None));
    let by = Arc::clone(&seen);
    let look = move |line: &str| *by.lock().unwrap() = Some((line.to_owned(), std::thread::current().id()));
    Console::new("vm", Sink::AtOnce(Arc::new(look))).write_all(b"up\n").unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(("[vm] up".to_owned(), std::thread::current().id())));
}

#[test]
fn raw_bytes_are_written_unchanged() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let writer: Arc<Mutex<dyn Write + Send>> = kept.clone();
    let mut console = Console::new("vm", Sink::Raw { place: "a test".into(), writer });
    console.write_all(b"login\x1b[0m: ").unwrap();
    drop(console);
    assert_eq!(*kept.lock().unwrap(), b"login\x1b[0m: ");
}

#[test]
fn bytes_flushed_one_by_one_stay_one_line() {
    let buffer = Arc::default();
    let mut console = Console::new("vm", Sink::Buffer(Arc::clone(&buffer)));
    for byte in b"one\n" {
        console.write_all(&[*byte]).unwrap();
        console.flush().unwrap();
    }
    assert_eq!(*buffer.lock().unwrap(), b"one\n");
}

#[test]
fn a_buffer_takes_no_more_than_its_bound() {
    let buffer = Arc::default();
    let mut console = Console::new("vm", Sink::Buffer(Arc::clone(&buffer)));
    let line = [&[b'x'; 1000][..], b"\n"].concat();
    (0..=BUFFER_MAX / line.len() + 10).for_each(|_| console.write_all(&line).unwrap());
    let kept = buffer.lock().unwrap().len();
    assert!(kept <= BUFFER_MAX && kept > BUFFER_MAX - line.len(), "{kept}");
}

/// The reader is stopped until the second channel ends.
#[test]
fn a_guest_prints_on_while_nothing_is_written_and_what_found_no_room_is_counted() {
    let (began, begins) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let mut written = 0u64;
    let outlet = Outlet::new(
        "a test",
        Box::new(move |text| {
            if written == 0 {
                began.send(()).unwrap();
                let _ = released.lock().unwrap().recv();
            }
            written += text.len() as u64;
            Ok(())
        }),
    );
    assert!(outlet.put(b"first"));
    begins.recv().unwrap();
    let line = [b'x'; 100];
    let taken = (0..10_000).filter(|_| outlet.put(&line)).count();
    assert!(taken * line.len() < ROOM, "{taken}");
    assert!(taken * line.len() > ROOM / 2, "{taken}");
    drop(release);
    let Lost { bytes, error } = outlet.close();
    assert_eq!((bytes, error.is_none()), (((10_000 - taken) * line.len()) as u64, true));
}

#[test]
fn a_failed_write_is_counted_with_its_error() {
    let outlet = Outlet::new("a test", Box::new(|_| Err(io::ErrorKind::StorageFull.into())));
    assert!(outlet.put(b"12345"));
    let Lost { bytes, error } = outlet.close();
    assert_eq!((bytes, error.map(|error| error.kind())), (5, Some(io::ErrorKind::StorageFull)));
    assert_eq!(outlet.close().bytes, 0);
}

#[test]
fn a_panic_while_text_is_written_loses_it_and_nothing_else() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&written);
    let mut first = true;
    let write = move |text: &[u8]| {
        assert!(!std::mem::replace(&mut first, false), "planted");
        kept.lock().unwrap().extend_from_slice(text);
        Ok(())
    };
    let outlet = Outlet::new("a test", Box::new(write));
    assert!(outlet.put(b"lost") && outlet.put(b"kept"));
    let Lost { bytes, error } = outlet.close();
    assert_eq!((bytes, error.map(|error| error.to_string())), (4, Some("stile panicked".into())));
    assert_eq!(*written.lock().unwrap(), b"kept");
}

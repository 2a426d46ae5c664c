//! What a frame says is what the screen shows, at every size.

use crate::figures::{app_with, cells, frame, lines, press, press_key, two, vm, words};
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};
use stile_api::{Figures, Frame, PcpuView, Problem, Reason, VmFigures, VmState};
use stile_top::App;

/// The names in the table, from top to bottom.
fn names(app: &App) -> Vec<String> {
    let shown = lines(app, 80, 24);
    let rows = shown.iter().filter(|line| line.contains("running"));
    rows.filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

#[test]
fn eighty_columns_have_the_figures_that_matter_most() {
    let mut app = app_with(two());
    let shown = lines(&app, 80, 24);
    assert_eq!(shown[0], "stile top  2 pCPUs  2 VMs, 3 vCPUs  rsdl                      04:04:13 UTC  live");
    assert_eq!(shown[1], "62.5 % used  switches 12.3k/s  kicks p99 45.2 µs");
    // Heading: two lines. A VM has letter, mark, name, state, nice, cap, run, ready, taken, p99, exits, bar.
    assert_eq!(words(&shown, "state")[..6], ["name", "state", "nice", "cap", "run▼", "ready"]);
    assert_eq!(
        words(&shown, " web ")[..],
        ["B", "+", "web", "running", "0", "-", "50.0", "20.0", "0.0", "1.00", "ms", "40.0k", "██████▒▒···"]
    );
    assert_eq!(
        words(&shown, " db ")[..],
        ["A", "+", "db", "running", "-5", "1.5", "25.0", "25.0", "0.0", "2.50", "ms", "10.0k", "███▒▒▒·····"]
    );
    press_key(&mut app, KeyCode::Enter);
    let shown = lines(&app, 80, 24);
    assert_eq!(words(&shown, "vCPU 1")[..7], ["vCPU", "1", "cpu0", "40.0", "30.0", "0.0", "3.00"]);
    assert_eq!(words(&shown, "vCPU 0")[..4], ["vCPU", "0", "60.0", "10.0"], "vCPU 0 has no pCPU");
}

#[test]
fn a_wide_screen_has_all_columns() {
    let mut taken = vm("web", &[[0.5, 0.2, 0.2]]);
    taken.figures.taken_seconds = Some(0.1);
    taken.figures.throttled_seconds = Some(0.05);
    let shown = lines(&app_with(frame(vec![taken], &[None])), 150, 40);
    let heading =
        ["name", "state", "nice", "class", "cap", "run▼", "ready", "capped", "taken", "steal", "wait", "wait"];
    assert_eq!(words(&shown, "state")[..12], heading);
    assert_eq!(
        words(&shown, " web ")[..22],
        [
            "A",
            "+",
            "web",
            "running",
            "0",
            "normal",
            "-",
            "50.0",
            "20.0",
            "5.0",
            "10.0",
            "20.0",
            "200",
            "µs",
            "2.00",
            "ms",
            "4.00",
            "ms",
            "20.0k",
            "500",
            "3",
            "███████████████▒▒▒▒▒!!!······"
        ]
    );
}

#[test]
fn no_size_and_no_state_panics_or_wraps() {
    let mut states = vec![App::new(true), app_with(two())];
    let many: Vec<VmFigures> =
        (0..200).map(|n| vm(&format!("a-name-as-long-as-they-get-{n}"), &[[0.1; 3]; 4])).collect();
    states.push(app_with(frame(many, &[Some("a-name-as-long-as-they-get-7/0"); 512])));
    states.push(app_with(frame(Vec::new(), &[])));
    for app in &mut states {
        for keys in ["*", "?", "?c", "1", "G"] {
            press(app, keys);
            for (width, height) in [(1, 1), (39, 9), (40, 10), (80, 24), (81, 25), (120, 40), (300, 90)] {
                let shown = lines(app, width, height);
                assert_eq!(shown.len(), usize::from(height));
                let is_complete = shown.iter().any(|line| line.contains("stile top"));
                assert!(is_complete || width < 40, "{shown:?}");
            }
        }
    }
}

#[test]
fn the_strip_shows_who_has_each_pcpu_and_who_had_it() {
    let mut app = App::new(true);
    for on in [[Some("db/0"), None], [Some("web/0"), None], [Some("web/1"), Some("db/0")]] {
        app.on_frame(Frame { pcpus: frame(Vec::new(), &on).pcpus, ..two() });
    }
    let shown = lines(&app, 80, 24);
    assert_eq!(words(&shown, "cpu0"), ["cpu0", "web/1", "ABB"], "A is db and B is web");
    assert_eq!(words(&shown, "cpu1"), ["cpu1", "db/0", "··A"]);
}

#[test]
fn many_pcpus_have_a_letter_each_and_those_without_room_are_counted() {
    let on: Vec<Option<&str>> = (0..512).map(|cpu| if cpu < 100 { Some("web/0") } else { None }).collect();
    let app = app_with(Frame { pcpus: frame(Vec::new(), &on).pcpus, ..two() });
    let shown = lines(&app, 80, 24);
    assert_eq!(shown[2], format!("cpu0   {}", ["BBBBBBBB"; 8].join(" ")));
    assert_eq!(words(&shown, "cpu64")[4..7], ["BBBBBBBB", "BBBB····", "········"]);
    assert_eq!(shown[5], "320 pCPUs more");
    let shown = lines(&app, 120, 60);
    assert!(!shown.iter().any(|line| line.ends_with("more")), "{shown:?}");
}

#[test]
fn without_a_policy_unknown_figures_are_dashes_and_no_zeros() {
    let mut host = two();
    host.policy = "host".to_owned();
    host.domain.kicks = None;
    host.vms.truncate(1);
    host.vms[0].figures = Figures { waits: None, taken_seconds: None, ..host.vms[0].figures };
    let shown = lines(&app_with(host), 80, 24);
    assert!(shown[1].contains("kicks p99 -"), "{}", shown[1]);
    assert!(shown[2].starts_with("The host's scheduler decides"), "{}", shown[2]);
    assert_eq!(words(&shown, " db ")[6..9], ["25.0", "25.0", "-"]);
}

#[test]
fn figures_since_the_start_have_no_rates() {
    let app = app_with(Frame { seconds: None, ..two() });
    let shown = lines(&app, 80, 24);
    assert!(shown[1].starts_with("- % used  switches -/s"), "{}", shown[1]);
    assert_eq!(words(&shown, " web ")[8..12], ["0.0", "1.00", "ms", "-"], "shares and waits there are");
}

#[test]
fn the_sorted_column_is_shown_however_narrow_the_screen() {
    let mut app = app_with(two());
    press(&mut app, ">>>>>>>>>>");
    let shown = lines(&app, 60, 24);
    assert!(words(&shown, "state").contains(&"moves▼".to_owned()), "{shown:?}");
}

#[test]
fn rows_are_sorted_by_any_column_and_either_way() {
    let mut app = app_with(two());
    assert_eq!(names(&app), ["web", "db"], "by run at first, downwards");
    press(&mut app, "r");
    assert_eq!(names(&app), ["db", "web"]);
    press(&mut app, ">");
    assert_eq!(names(&app), ["db", "web"], "by ready, downwards");
    press(&mut app, "<<<");
    assert_eq!(names(&app), ["db", "web"], "by class, which is the same, so by name");
    press(&mut app, "<");
    assert_eq!(names(&app), ["web", "db"], "by nice, downwards");
    press(&mut app, "<<");
    assert_eq!(names(&app), ["db", "web"], "by name, upwards");
    press(&mut app, "r");
    assert_eq!(names(&app), ["web", "db"]);
}

#[test]
fn what_is_not_known_comes_last_either_way_round() {
    let mut unknown = vm("unknown", &[]);
    unknown.figures = Figures::default();
    let mut app = app_with(frame(vec![unknown, vm("little", &[[0.1, 0.0, 0.9]]), vm("much", &[[0.9, 0.0, 0.1]])], &[]));
    assert_eq!(names(&app), ["much", "little", "unknown"]);
    press(&mut app, "r");
    assert_eq!(names(&app), ["little", "much", "unknown"]);
}

#[test]
fn the_filter_leaves_vms_out_and_escape_brings_them_back() {
    let mut app = app_with(two());
    press(&mut app, "/We");
    assert_eq!(names(&app), ["web"]);
    assert!(lines(&app, 80, 24).contains(&"filter: We".to_owned()));
    press_key(&mut app, KeyCode::Enter);
    assert!(lines(&app, 80, 24)[1].ends_with("filter: We"));
    press(&mut app, "/x");
    assert!(lines(&app, 80, 24).contains(&"no VM has `Wex` in its name".to_owned()));
    press_key(&mut app, KeyCode::Esc);
    assert_eq!(names(&app), ["web", "db"]);
}

#[test]
fn a_long_table_shows_the_rows_around_the_selected_one() {
    let vms = (0..100).map(|n| vm(&format!("vm-{n:03}"), &[[0.5, 0.0, 0.5]])).collect();
    let mut app = app_with(frame(vms, &[None]));
    assert_eq!(names(&app)[0], "vm-000");
    press_key(&mut app, KeyCode::End);
    assert_eq!(names(&app).last().map(String::as_str), Some("vm-099"));
    press_key(&mut app, KeyCode::PageUp);
    press_key(&mut app, KeyCode::PageUp);
    press(&mut app, "k");
    let shown = names(&app);
    assert!(shown.contains(&"vm-078".to_owned()) && !shown.contains(&"vm-099".to_owned()), "{shown:?}");
}

#[test]
fn a_lost_connection_is_told_with_the_last_figures_until_there_are_new_ones() {
    let mut app = app_with(two());
    app.on_lost(&Problem::new(Reason::TimedOut, "no answer").remedy("start the node"));
    let shown = lines(&app, 80, 24);
    assert!(shown[0].ends_with("LOST"), "{}", shown[0]);
    assert!(shown.contains(&"! no figures: no answer (start the node)".to_owned()), "{shown:?}");
    assert_eq!(names(&app), ["web", "db"]);
    app.on_frame(two());
    let shown = lines(&app, 80, 24);
    assert!(shown[0].ends_with("live") && shown.contains(&"connected again".to_owned()), "{shown:?}");
}

#[test]
fn the_help_names_every_key_and_fits() {
    let mut app = app_with(two());
    press(&mut app, "?");
    for (width, height) in [(80, 24), (120, 40)] {
        let shown = lines(&app, width, height);
        for key in ["Enter", "*", "< > r", "/", "p ", "n or -", "c ", "? F1", "q F10"] {
            assert!(shown.iter().any(|line| line.starts_with(key)), "{key} at {width}x{height}: {shown:?}");
        }
        assert!(shown.iter().any(|line| line.starts_with("ready %")), "{shown:?}");
        assert!(shown[2..].iter().all(|line| line.chars().count() < usize::from(width)), "a line is cut: {shown:?}");
    }
    press(&mut app, "x");
    assert_eq!(names(&app), ["web", "db"], "any key leads back");
}

#[test]
fn without_colours_no_cell_has_one_and_the_selection_is_reversed() {
    let mut app = App::new(false);
    app.on_frame(two());
    app.on_lost(&Problem::new(Reason::TimedOut, "no answer"));
    for keys in ["", "*", "j", "c", "?"] {
        press(&mut app, keys);
        let buffer = cells(&app, 100, 30);
        assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    }
    press(&mut app, "x");
    let reversed = |app: &App| {
        let buffer = cells(app, 80, 24);
        let rows = (0..24).filter(|y| buffer[(0, *y)].modifier.contains(Modifier::REVERSED));
        rows.map(|y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>()).collect::<Vec<_>>()
    };
    let rows = reversed(&app);
    assert!(matches!(rows.as_slice(), [row] if row.contains("vCPU 0")), "{rows:?}");
    let colored = cells(&app_with(two()), 80, 24);
    assert!(colored.content.iter().any(|cell| cell.fg != Color::Reset));
}

#[test]
fn states_are_words() {
    let paused = VmFigures { state: VmState::Paused, ..vm("web", &[[0.0, 0.0, 1.0]]) };
    let stopped = VmFigures { state: VmState::Stopped, figures: Figures::default(), ..vm("db", &[]) };
    let mut stopped_frame = frame(vec![paused, stopped], &[None]);
    stopped_frame.pcpus = vec![PcpuView { cpu: 17, vcpu: None }];
    let shown = lines(&app_with(stopped_frame), 80, 24);
    assert!(shown[0].contains("2 VMs, 1 vCPU, 1 paused, 1 stopped"), "{}", shown[0]);
    assert_eq!(words(&shown, " web ")[3], "paused");
    assert_eq!(words(&shown, " db ")[3..8], ["stopped", "0", "-", "-", "-"], "it has had no time to share");
    assert_eq!(words(&shown, "cpu17"), ["cpu17", "-", "·"]);
}

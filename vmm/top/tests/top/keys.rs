//! Keys issue the right orders, and the selection stays where it is.

use crate::figures::{app_with, frame, lines, press, press_key, two, vm};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use stile_api::{CapSetting, NoCap, Problem, Reason, SchedulingRequest, VmFigures, VmState};
use stile_config::CpuCap;
use stile_top::{Action, App, Order};

fn nice(vm: &str, nice: i8) -> Action {
    let request = SchedulingRequest { nice: Some(nice), ..SchedulingRequest::default() };
    Action::Order(Order::Schedule { vm: vm.to_owned(), request })
}

fn cap(vm: &str, cap: CapSetting) -> Action {
    let request = SchedulingRequest { cap: Some(cap), ..SchedulingRequest::default() };
    Action::Order(Order::Schedule { vm: vm.to_owned(), request })
}

fn answer(app: &mut App, action: Action, answer: Result<(), Problem>) {
    let Action::Order(order) = action else { panic!("{action:?} is no order") };
    app.on_answer(&order, answer);
}

/// The VM that an order by the next key would concern.
fn selected(app: &mut App) -> Option<String> {
    match press(app, "p") {
        Action::Order(order) => Some(order.vm().to_owned()),
        _ => None,
    }
}

#[test]
fn p_pauses_what_runs_and_resumes_what_is_paused() {
    let mut app = app_with(two());
    assert_eq!(press(&mut app, "p"), Action::Order(Order::Pause { vm: "web".to_owned() }));
    let paused = |state| VmFigures { state, ..vm("web", &[[0.1; 3]]) };
    app.on_frame(frame(vec![paused(VmState::Paused)], &[]));
    assert_eq!(press(&mut app, "p"), Action::Order(Order::Resume { vm: "web".to_owned() }));
    app.on_frame(frame(vec![paused(VmState::Stopped)], &[]));
    assert_eq!(press(&mut app, "p"), Action::None);
    assert!(lines(&app, 80, 24).contains(&"! web is stopped".to_owned()));
}

#[test]
fn an_order_from_the_row_of_a_vcpu_concerns_its_vm() {
    let mut app = app_with(two());
    press_key(&mut app, KeyCode::Enter);
    press(&mut app, "jj");
    assert_eq!(selected(&mut app).as_deref(), Some("web"));
    press(&mut app, "j");
    assert_eq!(selected(&mut app).as_deref(), Some("db"));
}

#[test]
fn nice_keys_count_on_from_what_was_ordered_before() {
    let mut app = app_with(two());
    assert_eq!(press(&mut app, "N"), nice("web", 1));
    assert_eq!(press(&mut app, "+"), nice("web", 2));
    app.on_frame(two());
    let last = press(&mut app, "-");
    assert_eq!(last, nice("web", 1), "the frame does not know yet what was ordered");
    for _ in 0..3 {
        answer(&mut app, last.clone(), Ok(()));
    }
    assert!(lines(&app, 80, 24).contains(&"web has nice 1".to_owned()));
    app.on_frame(two());
    assert_eq!(press(&mut app, "n"), nice("web", -1), "all is answered, so the frame holds");
}

#[test]
fn a_refused_nice_is_forgotten_and_told() {
    let mut app = app_with(two());
    let action = press(&mut app, "N");
    answer(&mut app, action, Err(Problem::new(Reason::Forbidden, "not yours").remedy("ask root")));
    assert!(lines(&app, 80, 24).contains(&"! could not change web: not yours (ask root)".to_owned()));
    assert_eq!(press(&mut app, "N"), nice("web", 1));
}

#[test]
fn nice_ends_at_its_bounds() {
    let mut app = app_with(frame(vec![VmFigures { nice: -20, ..vm("web", &[[0.1; 3]]) }], &[]));
    assert_eq!(press(&mut app, "n"), Action::None);
    assert!(lines(&app, 80, 24).contains(&"! nice is -20 to 19".to_owned()));
    assert_eq!(press(&mut app, "N"), nice("web", -19));
}

#[test]
fn a_cap_is_typed_and_checked() {
    let mut app = app_with(two());
    let half = CpuCap::try_from(0.5).expect("it is in range");
    press(&mut app, "c0.5");
    assert!(lines(&app, 80, 24).contains(&"cap of web, in CPUs (none: no cap): 0.5".to_owned()));
    assert_eq!(press_key(&mut app, KeyCode::Enter), cap("web", CapSetting::Cpus(half)));
    press(&mut app, "cnone");
    assert_eq!(press_key(&mut app, KeyCode::Enter), cap("web", CapSetting::None(NoCap::None)));
    press(&mut app, "c-1");
    assert_eq!(press_key(&mut app, KeyCode::Enter), Action::None);
    assert!(lines(&app, 80, 24).iter().any(|line| line.contains("-1   ! -1 is out of range")), "it stays to be mended");
    press_key(&mut app, KeyCode::Backspace);
    press_key(&mut app, KeyCode::Backspace);
    press(&mut app, "q");
    assert_eq!(press_key(&mut app, KeyCode::Enter), Action::None, "q is typed, and no number");
    assert_eq!(press_key(&mut app, KeyCode::Esc), Action::None);
    assert_eq!(press(&mut app, "q"), Action::Quit, "the input was left");
}

#[test]
fn a_cap_that_there_is_stands_in_the_input() {
    let mut app = app_with(two());
    press(&mut app, "jc");
    press_key(&mut app, KeyCode::Backspace);
    press(&mut app, "25");
    let cpus = CpuCap::try_from(1.25).expect("it is in range");
    assert_eq!(press_key(&mut app, KeyCode::Enter), cap("db", CapSetting::Cpus(cpus)), "1.5 became 1.25");
}

#[test]
fn the_cap_of_a_vm_that_vanishes_is_not_asked_for_any_more() {
    let mut app = app_with(two());
    press(&mut app, "c2");
    app.on_frame(frame(vec![vm("db", &[[0.1; 3]])], &[]));
    assert!(lines(&app, 80, 24).contains(&"! web exists no more".to_owned()));
    assert_eq!(press_key(&mut app, KeyCode::Enter), Action::None);
}

#[test]
fn the_selection_follows_its_row_when_the_order_changes() {
    let mut app = app_with(two());
    press(&mut app, "j");
    assert_eq!(selected(&mut app).as_deref(), Some("db"));
    let busy = vm("db", &[[1.0, 0.0, 0.0]]);
    app.on_frame(frame(vec![busy, vm("web", &[[0.1; 3]])], &[]));
    assert_eq!(selected(&mut app).as_deref(), Some("db"));
    press(&mut app, "j");
    assert_eq!(selected(&mut app).as_deref(), Some("web"), "db is the first row now");
}

#[test]
fn expansion_keeps_the_selection_and_hidden_vcpus_give_it_to_their_vm() {
    let mut app = app_with(two());
    press(&mut app, "*j");
    assert_eq!(selected(&mut app).as_deref(), Some("web"));
    app.on_frame(two());
    press_key(&mut app, KeyCode::Left);
    press(&mut app, "j");
    assert_eq!(selected(&mut app).as_deref(), Some("db"), "web itself was selected, and db is next");
}

#[test]
fn when_the_selected_vm_vanishes_the_row_at_its_place_is_selected() {
    let vms = |names: &[&str]| frame(names.iter().map(|name| vm(name, &[[0.1; 3]])).collect(), &[]);
    let mut app = app_with(vms(&["a", "b", "c"]));
    press(&mut app, "j");
    app.on_frame(vms(&["a", "c"]));
    assert_eq!(selected(&mut app).as_deref(), Some("c"));
    app.on_frame(vms(&["a"]));
    assert_eq!(selected(&mut app).as_deref(), Some("a"));
    app.on_frame(vms(&[]));
    assert_eq!(selected(&mut app), None);
    assert_eq!(press(&mut app, "nNc"), Action::None);
    app.on_frame(vms(&["z"]));
    assert_eq!(selected(&mut app).as_deref(), Some("z"));
}

#[test]
fn a_vm_that_the_filter_hides_gets_no_orders() {
    let mut app = app_with(two());
    press(&mut app, "/db");
    press_key(&mut app, KeyCode::Enter);
    assert_eq!(selected(&mut app).as_deref(), Some("db"));
}

#[test]
fn control_c_quits_and_control_z_suspends_even_while_text_is_typed() {
    let mut app = app_with(two());
    press(&mut app, "/");
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(app.on_key(control('z')), Action::Suspend);
    assert_eq!(app.on_key(control('c')), Action::Quit);
    let released = KeyEvent { kind: KeyEventKind::Release, ..control('c') };
    assert_eq!(app.on_key(released), Action::None);
}

#[test]
fn orders_that_the_node_is_too_slow_for_are_told() {
    let mut app = app_with(two());
    let Action::Order(order) = press(&mut app, "p") else { panic!("p is an order") };
    app.on_refused(&order);
    assert!(lines(&app, 80, 24).iter().any(|line| line.starts_with("! could not pause web")));
}

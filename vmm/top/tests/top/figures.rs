//! Made-up frames, and the screen as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stile_api::{DomainFigures, Figures, Frame, PcpuView, Spans, VcpuFigures, VmFigures, VmState};
use stile_top::{Action, App, draw};

/// A vCPU that ran, waited and idled for these parts of a second.
pub(crate) fn vcpu(index: u32, [run, wait, idle]: [f64; 3]) -> VcpuFigures {
    let figures = Figures {
        run_seconds: run,
        wait_seconds: wait,
        idle_seconds: idle,
        taken_seconds: Some(0.0),
        throttled_seconds: Some(0.0),
        steal_seconds: Some(wait),
        waits: Some(Spans { count: 9, p50: Some(0.001 * wait), p99: Some(0.01 * wait), max: Some(0.02 * wait) }),
        turns: (1000.0 * run) as u64,
        migrations: 3,
        exits: (40_000.0 * run) as u64,
        ..Figures::default()
    };
    VcpuFigures { index, figures }
}

/// A VM with these vCPUs.
pub(crate) fn vm(name: &str, vcpus: &[[f64; 3]]) -> VmFigures {
    let vcpus: Vec<VcpuFigures> = (0..).zip(vcpus).map(|(index, times)| vcpu(index, *times)).collect();
    let sum = |of: fn(&Figures) -> f64| vcpus.iter().map(|vcpu| of(&vcpu.figures)).sum::<f64>();
    let count = |of: fn(&Figures) -> u64| vcpus.iter().map(|vcpu| of(&vcpu.figures)).sum();
    let figures = Figures {
        run_seconds: sum(|of| of.run_seconds),
        wait_seconds: sum(|of| of.wait_seconds),
        idle_seconds: sum(|of| of.idle_seconds),
        turns: count(|of| of.turns),
        migrations: count(|of| of.migrations),
        exits: count(|of| of.exits),
        ..vcpus.first().map(|vcpu| vcpu.figures).unwrap_or_default()
    };
    VmFigures {
        name: name.to_owned(),
        state: VmState::Running,
        nice: 0,
        class: "normal".to_owned(),
        cap: None,
        figures,
        vcpus,
    }
}

/// A frame of an interval of a second, with these vCPUs on its pCPUs.
pub(crate) fn frame(vms: Vec<VmFigures>, on: &[Option<&str>]) -> Frame {
    let pcpu = |(cpu, vcpu): (u32, &Option<&str>)| PcpuView { cpu, vcpu: vcpu.map(str::to_owned) };
    let kicks = Spans { count: 100, p50: Some(9e-6), p99: Some(45.2e-6), max: Some(8e-5) };
    Frame {
        at: 1_764_043_453.0,
        seconds: Some(1.0),
        policy: "rsdl".to_owned(),
        pcpus: (0..).zip(on).map(pcpu).collect(),
        domain: DomainFigures { switches: 12_345, kicks: Some(kicks) },
        vms,
    }
}

/// Two VMs on two pCPUs: `web` runs half of the time, `db` a quarter and waits for another quarter.
pub(crate) fn two() -> Frame {
    let web = vm("web", &[[0.6, 0.1, 0.3], [0.4, 0.3, 0.3]]);
    let db = VmFigures { nice: -5, cap: Some(1.5), ..vm("db", &[[0.25, 0.25, 0.5]]) };
    frame(vec![db, web], &[Some("web/1"), None])
}

/// The state after a frame.
pub(crate) fn app_with(frame: Frame) -> App {
    let mut app = App::new(true);
    app.on_frame(frame);
    app
}

/// What is on the screen, cell by cell.
pub(crate) fn cells(app: &App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("this backend has no errors");
    terminal.draw(|screen| draw(app, screen)).expect("as above");
    terminal.backend().buffer().clone()
}

/// What is on the screen, line by line.
pub(crate) fn lines(app: &App, width: u16, height: u16) -> Vec<String> {
    let buffer = cells(app, width, height);
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}

/// The words of the first line that has this text in it.
pub(crate) fn words(lines: &[String], with: &str) -> Vec<String> {
    let line = lines.iter().find(|line| line.contains(with));
    let line = line.unwrap_or_else(|| panic!("no line has `{with}`:\n{}", lines.join("\n")));
    line.split_whitespace().map(str::to_owned).collect()
}

/// Presses keys one after the other. Returns what the last one led to.
pub(crate) fn press(app: &mut App, keys: &str) -> Action {
    keys.chars().fold(Action::None, |_, c| app.on_key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)))
}

/// Presses a key that is no character.
pub(crate) fn press_key(app: &mut App, code: KeyCode) -> Action {
    app.on_key(KeyEvent::new(code, KeyModifiers::NONE))
}

//! A moment as a picture: a lane for each pCPU with the vCPUs that ran there, and below them the vCPU that waited.

use super::{INK, PALETTE, RGBColor};
use maud::{Markup, html};
use stile_results::moment::{Lane, Moment, Turn};

/// Sizes (units: SVG user units, px at the natural size).
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 12.0;
const ROW: f64 = 30.0;
const BAR: f64 = 22.0;
const AXIS: f64 = 34.0;
/// Width that a turn needs for each letter of a name.
const LETTER: f64 = 7.6;
/// The colour of the vCPU that waited.
const WAITING: RGBColor = PALETTE[2];
/// The colour of several turns drawn as one.
const SEVERAL: RGBColor = PALETTE[0];
/// Colours of the other vCPUs.
const OTHERS: [RGBColor; 5] = [PALETTE[1], PALETTE[3], PALETTE[4], PALETTE[5], PALETTE[6]];
/// Labels on the axis.
const TICKS: u32 = 4;

/// Draws a moment as an SVG element; time counts from the wait's beginning.
pub fn svg(moment: &Moment, title: &str) -> String {
    let rows = moment.lanes.len() as f64 + 1.0;
    let (height, below) = (rows * ROW + AXIS, rows * ROW);
    let x = |us: f64| LEFT + us / moment.length.max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT);
    let names = names(moment);
    let waiting = moment.lanes.len() as f64 * ROW;
    let markup = html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) {
            @for (row, lane) in moment.lanes.iter().enumerate() { (lane_of(lane, row as f64 * ROW, &x, moment, &names)) }
            (row_name("waited", waiting))
            rect x=(round(x(moment.wait.0))) y=(waiting + 4.0) width=(round(x(moment.wait.1) - x(moment.wait.0)))
                height=(BAR) fill="none" stroke=(hex(WAITING)) stroke-width="2" stroke-dasharray="5 3" {}
            text x=(round((x(moment.wait.0) + x(moment.wait.1)) / 2.0)) y=(waiting + 20.0) font-size="14" text-anchor="middle" {
                (moment.vcpu) ", " (stile_text::time_us(moment.waited()))
            }
            line x1=(LEFT) y1=(below + 2.0) x2=(WIDTH - RIGHT) y2=(below + 2.0) stroke=(hex(INK)) {}
            @for tick in 0..=TICKS {
                @let us = (moment.wait.1 - moment.wait.0) * f64::from(tick) / f64::from(TICKS);
                @let at = round(x(moment.wait.0 + us));
                line x1=(at) y1=(below + 2.0) x2=(at) y2=(below + 7.0) stroke=(hex(INK)) {}
                text x=(at) y=(below + 22.0) font-size="14" text-anchor="middle" { (stile_text::time_us(us)) }
            }
        }
    };
    markup.into_string()
}

fn lane_of(lane: &Lane, top: f64, x: &impl Fn(f64) -> f64, moment: &Moment, names: &[&str]) -> Markup {
    html! {
        (row_name(&format!("CPU {}", lane.cpu), top))
        @for turn in &lane.turns {
            @let (from, to) = (x(turn.from), x(turn.to));
            @let name = turn.vcpu.as_deref().unwrap_or("several in turn");
            rect x=(round(from)) y=(top + 4.0) width=(round((to - from).max(0.5))) height=(BAR)
                fill=(hex(colour(turn, moment, names))) fill-opacity=(opacity(turn, moment)) {
                title { (name) ", " (stile_text::time_us(turn.to - turn.from)) }
            }
            @if turn.vcpu.is_some() && (name.chars().count() as f64 + 1.0) * LETTER < to - from {
                text.turn x=(round((from + to) / 2.0)) y=(top + 20.0) font-size="13" text-anchor="middle" { (name) }
            }
        }
    }
}

fn row_name(name: &str, top: f64) -> Markup {
    html! { text x=(LEFT - 10.0) y=(top + 20.0) font-size="14" text-anchor="end" { (name) } }
}

/// The vCPUs that ran, in order of name, so that each has one colour throughout.
fn names(moment: &Moment) -> Vec<&str> {
    let turns = moment.lanes.iter().flat_map(|lane| &lane.turns);
    let mut names: Vec<&str> = turns.filter_map(|turn| turn.vcpu.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn colour(turn: &Turn, moment: &Moment, names: &[&str]) -> RGBColor {
    match turn.vcpu.as_deref() {
        None => SEVERAL,
        Some(vcpu) if vcpu == moment.vcpu => WAITING,
        Some(vcpu) => OTHERS[names.iter().position(|name| *name == vcpu).unwrap_or(0) % OTHERS.len()],
    }
}

/// Turns are pale, because names are written on them; those of the vCPU that waited stand out.
fn opacity(turn: &Turn, moment: &Moment) -> &'static str {
    if turn.vcpu.as_ref() == Some(&moment.vcpu) { "0.9" } else { "0.4" }
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Rounds a place to what a screen can show, which keeps the page small.
fn round(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(vcpu: &str) -> Moment {
        let turn = |from, to, vcpu: Option<&str>| Turn { from, to, vcpu: vcpu.map(str::to_owned) };
        let turns = vec![turn(0.0, 400.0, Some("a/1")), turn(400.0, 500.0, None), turn(500.0, 1000.0, Some(vcpu))];
        let lanes = vec![Lane { cpu: 3, turns }];
        Moment { vcpu: vcpu.to_owned(), wait: (100.0, 500.0), length: 1000.0, longest: 700.0, kept: 9000.0, lanes }
    }

    #[test]
    fn lanes_turns_and_the_wait_are_drawn_and_named() {
        let svg = svg(&moment("b/0"), "vCPUs that ran");
        for told in
            ["CPU 3", "a/1", "several in turn, 100 µs", "b/0, 400 µs", "waited", "aria-label=\"vCPUs that ran\""]
        {
            assert!(svg.contains(told), "no `{told}` in {svg}");
        }
        assert!(svg.contains(&hex(WAITING)) && svg.contains(&hex(SEVERAL)));
    }

    #[test]
    fn names_from_guests_are_escaped_and_an_empty_moment_is_drawn() {
        assert!(!svg(&moment("<b>"), "\"<i>").contains("<b>"));
        let empty = Moment { lanes: Vec::new(), length: 0.0, wait: (0.0, 0.0), ..moment("a/0") };
        assert!(!svg(&empty, "nothing").contains("NaN"));
    }
}

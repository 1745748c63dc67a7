//! Charts of a report as inline SVG. Positions across are shares of the width and positions down are
//! pixels, so that a chart fits a phone and a wide screen and its text keeps its size. What a colour says, a shape and
//! a word say as well.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::judge::figures::{line, percent, quantity};
use crate::measure::Metric;
use crate::text::escape_markup;
use crate::verdict::{Direction, MetricComparison};

/// Up to so many cases have a row each; more are dots.
const MAX_ROWS: usize = 16;
/// The most dots of one chart.
const MAX_DOTS: usize = 400;
/// The most rows of the plot of changes.
const MAX_CHANGES: usize = 24;
/// The farthest change that is drawn; what is farther ends in an arrow.
const FARTHEST: f64 = 2.0;

/// Text that is safe between tags and in attributes: escaped, on one line, at most `most` characters.
pub(crate) fn safe(text: &str, most: usize) -> String {
    escape_markup(&line(text, most)).into_owned()
}

/// A mark on the plot of changes: what a goal wants or a guard allows, as a gain.
pub(crate) struct Wanted {
    pub(crate) metric: Metric,
    pub(crate) part: Option<String>,
    pub(crate) gain: f64,
}

/// A case in a chart: its name, and its means before and after.
pub(crate) struct Point {
    pub(crate) name: String,
    pub(crate) before: f64,
    pub(crate) after: f64,
}

fn tone(direction: Direction) -> &'static str {
    match direction {
        Direction::Better => "good",
        Direction::Worse => "bad",
        Direction::Same | Direction::Unclear => "",
    }
}

/// A chart with its name and what it shows, for those who do not see it.
fn svg(id: &str, height: f64, title: &str, about: &str, body: &str) -> String {
    let (title, about) = (safe(title, 200), safe(about, 400));
    format!(
        "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" height=\"{height}\"><title id=\"{id}-t\">{title}</title>\
         <desc id=\"{id}-d\">{about}</desc>{body}</svg>\n"
    )
}

/// A shape at a place; paths have no shares of the width, but what holds them does.
fn shape(x: f64, y: f64, class: &str, path: &str) -> String {
    format!("<svg x=\"{x:.2}%\" y=\"{y}\"><path class=\"{class}\" d=\"{path}\"/></svg>")
}

/// A scale across the chart, in percent of its width.
struct Scale {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.left + share * (self.right - self.left)
    }
}

/// The relative changes with their intervals, better to the right of the zero line.
pub(crate) fn changes(id: &str, comparisons: &[&MetricComparison], wanted: &[Wanted]) -> String {
    let shown = &comparisons[..comparisons.len().min(MAX_CHANGES)];
    let ends = || shown.iter().flat_map(|one| one.gain_interval().into_iter().chain([one.gain()]));
    let marks = || wanted.iter().map(|mark| mark.gain);
    let low = ends().chain(marks()).fold(-0.02, f64::min).max(-FARTHEST);
    let high = ends().chain(marks()).fold(0.02, f64::max).min(FARTHEST);
    let pad = 0.08 * (high - low);
    let scale = Scale { low: low - pad, high: high + pad, left: 0.0, right: 100.0 };
    let zero = scale.at(0.0);
    let bottom = shown.iter().map(|one| row_height(one)).sum::<f64>() + 8.0;
    let mut body = format!(
        "<rect class=\"side-bad\" x=\"0\" y=\"0\" width=\"{zero:.2}%\" height=\"{bottom}\"/>\
         <rect class=\"side-good\" x=\"{zero:.2}%\" y=\"0\" width=\"{:.2}%\" height=\"{bottom}\"/>",
        100.0 - zero
    );
    for tick in ticks(scale.low, scale.high, 6.0) {
        let x = scale.at(tick);
        let _ = write!(body, "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"{bottom}\"/>");
        let anchor = if x < 4.0 {
            ""
        } else if x > 96.0 {
            " end"
        } else {
            " mid"
        };
        let text = if tick == 0.0 { "0".to_owned() } else { percent(tick.abs()) };
        let _ = write!(body, "<text class=\"faint{anchor}\" x=\"{x:.2}%\" y=\"{}\">{text}</text>", bottom + 15.0);
    }
    let _ = write!(
        body,
        "<line class=\"zero\" x1=\"{zero:.2}%\" x2=\"{zero:.2}%\" y1=\"0\" y2=\"{bottom}\"/>\
         <text class=\"faint bad\" x=\"0\" y=\"{y}\">◀ worse</text><text class=\"faint good end\" x=\"100%\" \
         y=\"{y}\">better ▶</text>",
        y = bottom + 32.0
    );
    let mut top = 0.0;
    for one in shown {
        let marks = wanted.iter().filter(|mark| mark.metric == one.metric && mark.part == one.part);
        change_row(&mut body, &scale, one, top, marks);
        top += row_height(one);
    }
    let about = shown.iter().map(|one| format!("{}: {}", one.metric.title(), told(one))).collect::<Vec<_>>();
    svg(id, bottom + 38.0, "Relative changes with their 95 % intervals", &about.join(". "), &body)
}

/// How high a row is: the part has a line of its own, or a phone would not hold it.
fn row_height(one: &MetricComparison) -> f64 {
    if one.part.is_some() { 63.0 } else { 48.0 }
}

fn change_row<'a>(
    body: &mut String,
    scale: &Scale,
    one: &MetricComparison,
    top: f64,
    marks: impl Iterator<Item = &'a Wanted>,
) {
    let tone = tone(one.direction);
    let [bad, good] = one.gain_interval();
    let (y, place) = (top + row_height(one) - 11.0, scale.at(one.gain()));
    if top > 0.0 {
        let _ = write!(body, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/>", top + 2.0);
    }
    if let Some(part) = one.part.as_deref() {
        let part = safe(part, 40);
        let _ = write!(body, "<text class=\"faint\" x=\"8\" y=\"{}\">in {part}</text>", top + 35.0);
    }
    let _ = write!(
        body,
        "<text class=\"label\" x=\"8\" y=\"{t}\">{}</text>\
         <text class=\"end {tone}\" x=\"100%\" dx=\"-8\" y=\"{t}\">{}</text>\
         <line class=\"rail {tone}\" x1=\"{:.2}%\" x2=\"{:.2}%\" y1=\"{y}\" y2=\"{y}\"/>",
        one.metric.title(),
        told(one),
        scale.at(bad),
        scale.at(good),
        t = top + 20.0,
    );
    for mark in marks {
        let x = scale.at(mark.gain);
        let (above, below) = (y - 8.0, y + 8.0);
        let _ = write!(body, "<line class=\"wanted\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{above}\" y2=\"{below}\"/>");
    }
    body.push_str(&match one.direction {
        Direction::Better => shape(place, y, "spot good", "M-6 5L0 -7L6 5z"),
        Direction::Worse => shape(place, y, "spot bad", "M-6 -5L0 7L6 -5z"),
        Direction::Same => shape(place, y, "spot", "M-6 -4H6V-1H-6zM-6 1H6V4H-6z"),
        Direction::Unclear => format!("<circle class=\"spot open\" cx=\"{place:.2}%\" cy=\"{y}\" r=\"5\"/>"),
    });
    for (end, path) in [(bad, "M-7 0L0 -5V5z"), (good, "M7 0L0 -5V5z")] {
        if end.abs() > FARTHEST {
            body.push_str(&shape(scale.at(end), y, &format!("spot {tone}"), path));
        }
    }
}

/// How a metric moved, in a few words.
pub(crate) fn told(one: &MetricComparison) -> String {
    let size = percent(one.gain().abs());
    match one.direction {
        Direction::Better => format!("▲ {size} better"),
        Direction::Worse => format!("▼ {size} worse"),
        Direction::Same => "= the same".to_owned(),
        Direction::Unclear => format!("○ unclear ({size} {})", if one.gain() < 0.0 { "worse" } else { "better" }),
    }
}

/// Round values from `low` to `high`, at most `most` steps apart.
fn ticks(low: f64, high: f64, most: f64) -> Vec<f64> {
    let rough = (high - low) / most;
    let power = 10_f64.powf(rough.max(f64::MIN_POSITIVE).log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step - 1e-9).ceil();
    (0..=most as usize).map(|index| (first + index as f64) * step).filter(|tick| *tick <= high * (1.0 + 1e-9)).collect()
}

/// The cases of one metric before and after: a row each where they are few, dots where they are many.
pub(crate) fn before_and_after(id: &str, one: &MetricComparison, points: &[Point]) -> String {
    let values = || points.iter().flat_map(|point| [point.before, point.after]);
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let is_share = matches!(one.metric, Metric::Solved | Metric::KeptFacts);
    let low = if is_share || least < 0.5 * most || most == 0.0 { 0.0 } else { least - 0.15 * (most - least) };
    let high = match () {
        () if is_share => 1.0,
        () if most > 0.0 && most > low => most + 0.04 * (most - low),
        () if most > 0.0 => most * 1.1,
        () => 1.0,
    };
    let low = if low >= most { most * 0.9 } else { low };
    if points.len() <= MAX_ROWS { rows(id, one, points, low, high) } else { dots(id, one, points, low, high) }
}

fn class(metric: Metric, point: &Point) -> &'static str {
    let gain = metric.better().gain(point.after - point.before);
    if gain > 0.0 {
        "good"
    } else if gain < 0.0 {
        "bad"
    } else {
        ""
    }
}

/// How many cases got better, worse, or stayed.
pub(crate) fn split(metric: Metric, points: &[Point]) -> [usize; 3] {
    ["good", "bad", ""].map(|wanted| points.iter().filter(|point| class(metric, point) == wanted).count())
}

fn rows(id: &str, one: &MetricComparison, points: &[Point], low: f64, high: f64) -> String {
    let scale = Scale { low, high, left: 37.0, right: 97.0 };
    let bottom = 20.0 * points.len() as f64 + 6.0;
    let mut body = axis(one.metric, &scale, bottom);
    for (row, point) in points.iter().enumerate() {
        let y = 20.0 * row as f64 + 13.0;
        let [before, after] = [point.before, point.after].map(|value| scale.at(value));
        let tone = class(one.metric, point);
        let _ = write!(
            body,
            "<g><title>{}: {} before, {} with the patch</title><text class=\"faint end\" x=\"34%\" y=\"{}\">{}</text>\
             <line class=\"rail {tone}\" x1=\"{before:.2}%\" x2=\"{after:.2}%\" y1=\"{y}\" y2=\"{y}\"/>\
             <circle class=\"spot open\" cx=\"{before:.2}%\" cy=\"{y}\" r=\"4\"/>",
            safe(&point.name, 80),
            quantity(one.metric, point.before),
            quantity(one.metric, point.after),
            y + 4.0,
            safe(&point.name, 16),
        );
        if !tone.is_empty() {
            let path = if point.after > point.before { "M-5 -6L6 0L-5 6z" } else { "M5 -6L-6 0L5 6z" };
            body.push_str(&shape(after, y, &format!("spot {tone}"), path));
        }
        body.push_str("</g>");
    }
    let title = format!("{} of each case, before and with the patch", one.metric.title());
    svg(id, bottom + 20.0, &title, &told_of(one, points), &body)
}

fn dots(id: &str, one: &MetricComparison, points: &[Point], low: f64, high: f64) -> String {
    let (bottom, height) = (232.0, 220.0);
    let scale = Scale { low, high, left: 15.0, right: 99.0 };
    let down = |value: f64| bottom - height * ((value - low) / (high - low)).clamp(0.0, 1.0);
    let (corner, place) = match one.better {
        crate::measure::MetricPolarity::Lower => {
            ("0,100 100,100 100,0", "<text class=\"faint good end\" x=\"97%\" y=\"222\">better ◢</text>")
        }
        crate::measure::MetricPolarity::Higher => {
            ("0,100 0,0 100,0", "<text class=\"faint good\" x=\"17%\" y=\"26\">◤ better</text>")
        }
    };
    let mut body = format!(
        "<svg x=\"15%\" y=\"12\" width=\"84%\" height=\"220\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">\
         <polygon class=\"side-good\" points=\"{corner}\"/></svg>{}\
         <line class=\"zero\" x1=\"15%\" x2=\"99%\" y1=\"{bottom}\" y2=\"12\"/>{place}",
        axis(one.metric, &Scale { ..scale }, bottom),
    );
    for value in ticks(low, high, 4.0) {
        let (y, text) = (down(value) + 4.0, quantity(one.metric, value));
        let _ = write!(body, "<text class=\"faint end\" x=\"13.5%\" y=\"{y:.0}\">{text}</text>");
    }
    // Evenly spread over all of them; what falls on the same place makes the dot there larger.
    let step = points.len().div_ceil(MAX_DOTS).max(1);
    let mut places: BTreeMap<(String, String, &str), usize> = BTreeMap::new();
    for point in points.iter().step_by(step) {
        let (x, y) = (format!("{:.1}", scale.at(point.before)), format!("{:.0}", down(point.after)));
        *places.entry((x, y, class(one.metric, point))).or_default() += 1;
    }
    for ((x, y, class), count) in places {
        let r = (2.5 + 1.1 * (count as f64).sqrt()).min(9.0);
        let _ = write!(body, "<circle class=\"dot {class}\" cx=\"{x}%\" cy=\"{y}\" r=\"{r:.1}\"/>");
    }
    let _ = write!(
        body,
        "<text class=\"faint end\" x=\"99%\" y=\"{}\">before →</text><text class=\"faint\" x=\"15%\" y=\"4\">↑ \
         with the patch</text>",
        bottom + 32.0
    );
    let title = format!("{} of each case with the patch, against before", one.metric.title());
    svg(id, bottom + 38.0, &title, &told_of(one, points), &body)
}

fn told_of(one: &MetricComparison, points: &[Point]) -> String {
    let [better, worse, same] = split(one.metric, points);
    let [before, after] = [one.baseline, one.patched].map(|mean| quantity(one.metric, mean));
    format!("Mean {before} before and {after} with the patch. {better} cases better, {worse} worse, {same} the same.")
}

fn axis(metric: Metric, scale: &Scale, bottom: f64) -> String {
    let mut body = String::new();
    for value in ticks(scale.low, scale.high, 4.0) {
        let (x, text) = (scale.at(value), quantity(metric, value));
        let (anchor, place) = if x > 93.0 { ("end", x.max(99.0)) } else { ("mid", x) };
        let _ = write!(
            body,
            "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"2\" y2=\"{bottom}\"/>\
             <text class=\"faint {anchor}\" x=\"{place:.2}%\" y=\"{}\">{text}</text>",
            bottom + 15.0
        );
    }
    body
}

/// How much of what is allowed was used.
pub(crate) fn bar(used: f64, allowed: f64) -> String {
    let share = if allowed > 0.0 { (used / allowed * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let tone = if used > allowed { " bad" } else { "" };
    // Something that was used is never drawn as nothing.
    let width = if used > 0.0 { share.max(0.6) } else { 0.0 };
    format!(
        "<svg aria-hidden=\"true\" height=\"10\"><rect class=\"track\" width=\"100%\" height=\"10\" rx=\"5\"/>\
         <rect class=\"used{tone}\" width=\"{width:.2}%\" height=\"10\" rx=\"5\"/></svg>"
    )
}

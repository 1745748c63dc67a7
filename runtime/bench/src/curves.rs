//! Learning curves as one SVG picture: a panel a family, a line an arm.

use std::fmt::Write as _;

use super::arms::BenchArm;
use super::table::{ArmResult, BenchTable, FamilyResult};

/// How wide and high a panel is, with its margins.
const PANEL: (usize, usize) = (380, 240);
/// The margins of a panel: left, top, right, bottom.
const MARGIN: (usize, usize, usize, usize) = (44, 34, 14, 34);
const COLUMNS: usize = 2;
/// How high a line of the legend is, and how wide an entry.
const LEGEND: (usize, usize) = (20, 190);

/// A colour that the colour-blind tell apart, and dashes for those who see none.
fn look(arm: BenchArm) -> (&'static str, &'static str) {
    match arm {
        BenchArm::None => ("#555555", "none"),
        BenchArm::Curated => ("#0072b2", "7 3"),
        BenchArm::Examples => ("#e69f00", "none"),
        BenchArm::ExamplesTrials => ("#e69f00", "7 3"),
        BenchArm::Plans => ("#009e73", "none"),
        BenchArm::SelfWritten => ("#cc79a7", "2 3"),
        BenchArm::Trials => ("#d55e00", "none"),
        BenchArm::Random => ("#56b4e9", "7 3 2 3"),
    }
}

/// One line: after each task, the share solved so far.
struct Curve {
    arm: BenchArm,
    shares: Vec<f64>,
}

struct Panel {
    title: String,
    /// After how many tasks learning was frozen.
    frozen: usize,
    curves: Vec<Curve>,
}

impl BenchTable {
    /// The picture, as SVG: a panel for each family, and one of all where there are several.
    pub fn curves(&self) -> String {
        let mut panels: Vec<Panel> = self.families.iter().map(of_family).collect();
        if self.families.len() > 1 {
            panels.push(self.pooled());
        }
        draw(&format!("Tasks solved: {}", self.model), &self.arms(), &panels)
    }

    /// All families at once: after the n-th task of each. Where one has fewer, it ends earlier, and so does this.
    fn pooled(&self) -> Panel {
        let shortest = |of: fn(&ArmResult) -> usize| {
            self.families.iter().flat_map(|family| family.arms.iter().map(of)).min().unwrap_or_default()
        };
        let (learn, held_out) = (shortest(|arm| arm.learn.len()), shortest(|arm| arm.held_out.len()));
        let curve = |arm: BenchArm| -> Option<Curve> {
            let of_arm = |family: &'_ FamilyResult| {
                family.arms.iter().find(|result| result.arm == arm).map(|result| {
                    let learned = result.learn.iter().take(learn);
                    learned.chain(result.held_out.iter().take(held_out)).map(|task| task.solved).collect::<Vec<_>>()
                })
            };
            let all: Vec<Vec<bool>> = self.families.iter().map(of_arm).collect::<Option<_>>()?;
            let at = |task: usize| all.iter().filter(|solved| solved.get(task) == Some(&true)).count() as f64;
            let each = (0..learn + held_out).map(|task| at(task) / all.len() as f64);
            Some(Curve { arm, shares: cumulative(each) })
        };
        Panel {
            title: format!("all {} families", self.families.len()),
            frozen: learn,
            curves: self.arms().into_iter().filter_map(curve).collect(),
        }
    }
}

fn of_family(family: &FamilyResult) -> Panel {
    let curve = |result: &ArmResult| {
        let tasks = result.learn.iter().chain(&result.held_out);
        Curve { arm: result.arm, shares: cumulative(tasks.map(|task| f64::from(u8::from(task.solved)))) }
    };
    Panel {
        title: family.name.clone(),
        frozen: family.arms.first().map_or(0, |arm| arm.learn.len()),
        curves: family.arms.iter().map(curve).collect(),
    }
}

fn cumulative(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |(at, value): (usize, f64)| {
        sum += value;
        sum / (at + 1) as f64
    };
    values.enumerate().map(add).collect()
}

fn draw(title: &str, arms: &[BenchArm], panels: &[Panel]) -> String {
    let columns = COLUMNS.min(panels.len()).max(1);
    let width = columns * PANEL.0;
    let a_line = (width / LEGEND.1).max(1);
    let top = 40 + LEGEND.0 * arms.len().div_ceil(a_line);
    let height = top + panels.len().div_ceil(columns) * PANEL.1;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n",
        title = escaped(title),
    );
    for (at, arm) in arms.iter().enumerate() {
        let (x, y) = (12 + at % a_line * LEGEND.1, 40 + at / a_line * LEGEND.0);
        let (colour, dashes) = look(*arm);
        add(
            &mut svg,
            format_args!(
                "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2.5\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
                x + 28,
                x + 34,
                y + 4,
                arm.title(),
            ),
        );
    }
    for (at, panel) in panels.iter().enumerate() {
        let corner = (at % columns * PANEL.0, top + at / columns * PANEL.1);
        draw_panel(&mut svg, panel, corner);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, panel: &Panel, corner: (usize, usize)) {
    let (left, upper) = (corner.0 + MARGIN.0, corner.1 + MARGIN.1);
    let (wide, high) = (PANEL.0 - MARGIN.0 - MARGIN.2, PANEL.1 - MARGIN.1 - MARGIN.3);
    let tasks = panel.curves.iter().map(|curve| curve.shares.len()).max().unwrap_or(0).max(1);
    let x = |task: usize| left as f64 + wide as f64 * task as f64 / tasks as f64;
    let y = |share: f64| upper as f64 + high as f64 * (1.0 - share);
    add(
        svg,
        format_args!(
            "<g><text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{}</text>\n",
            upper - 14,
            escaped(&panel.title)
        ),
    );
    for percent in [0, 25, 50, 75, 100] {
        let y = y(f64::from(percent) / 100.0);
        add(
            svg,
            format_args!(
                "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{percent} %</text>\n",
                left + wide,
                left - 5,
                y + 4.0,
            ),
        );
    }
    let (frozen, bottom) = (x(panel.frozen), upper + high);
    add(
        svg,
        format_args!(
            "<line x1=\"{frozen:.1}\" y1=\"{upper}\" x2=\"{frozen:.1}\" y2=\"{bottom}\" stroke=\"#999999\" \
         stroke-dasharray=\"4 4\"/><text x=\"{:.1}\" y=\"{}\" fill=\"#666666\">held out</text>\n\
         <text x=\"{left}\" y=\"{}\">1</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{tasks} tasks</text>\n",
            frozen + 4.0,
            upper - 3,
            bottom + 15,
            left + wide,
            bottom + 15,
        ),
    );
    for curve in &panel.curves {
        let (colour, dashes) = look(curve.arm);
        let points: Vec<String> =
            curve.shares.iter().enumerate().map(|(at, share)| format!("{:.1},{:.1}", x(at + 1), y(*share))).collect();
        add(
            svg,
            format_args!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\" \
             points=\"{}\"><title>{}</title></polyline>\n",
                points.join(" "),
                curve.arm.title(),
            ),
        );
    }
    svg.push_str("</g>\n");
}

fn escaped(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn a_curve_is_the_share_solved_so_far() {
        assert_eq!(cumulative([0.0, 1.0, 1.0, 0.0].into_iter()), [0.0, 0.5, 2.0 / 3.0, 0.5]);
    }

    #[test]
    fn the_picture_has_a_panel_a_family_and_a_line_an_arm() {
        let mut table = table::tests::table();
        table.families[0].name = "a<b & \"c\"".to_owned();
        let svg = table.curves();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 3 + 2 + 2, "the panel of all has the arms that all have");
        assert_eq!(svg.matches("held out").count(), 3);
        assert!(svg.contains("a&lt;b &amp; &quot;c&quot;") && !svg.contains("NaN"));
        assert_eq!(svg, table.curves());
    }
}

//! The report of an evaluation: one HTML file that stands alone. No script, nothing from outside, and
//! every text in it is escaped; names, answers and titles are written by others. It is at most
//! [`MAX_REPORT_BYTES`], whatever was measured.

mod about;
mod chart;
mod evidence;

use crate::evaluation::Evaluation;
use crate::judge::figures::{certainty, number};
use crate::judge::pairs::Pairing;
use crate::judge::statistics::RESAMPLES;
use crate::measure::EvaluationSample;
use crate::patch::Patch;
use crate::report::chart::safe;
use crate::verdict::{Verdict, VerdictRuling};

/// The largest report, in bytes; what no longer fits is left out, and the page says so.
pub const MAX_REPORT_BYTES: usize = 1_000_000;
/// What is left for the end of the page.
const END_BYTES: usize = 4_000;

const STYLE: &str = include_str!("style.css");

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct VerdictReport<'a> {
    /// The verdict that the page shows.
    pub verdict: &'a Verdict,
    /// The patch it is about.
    pub patch: &'a Patch,
    /// The evaluation that was run on both sides.
    pub evaluation: &'a Evaluation,
    /// The samples behind the verdict; the page pairs them again.
    pub samples: &'a [EvaluationSample],
}

impl VerdictReport<'_> {
    /// The whole page, self-contained and at most [`MAX_REPORT_BYTES`] long.
    pub fn to_html(&self) -> String {
        let pairing = Pairing::of(self.evaluation, self.samples);
        let mut page = Page { html: self.head(), left_out: 0 };
        page.add(self.ruling());
        page.add(self.caveats());
        page.add(self.asked());
        page.add(self.changes());
        page.add(self.before_and_after(&pairing.cases));
        page.add(self.checks(&pairing));
        page.add(self.statistics());
        page.add(self.patched());
        page.add(self.base());
        page.add(self.budgets());
        page.add(self.walls());
        page.add(self.again());
        page.end()
    }

    fn head(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"robots\" content=\"noindex\">\n\
             <title>{}: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <p class=\"brand\">herm <span>· report of a successor</span></p>\n",
            self.verdict.verdict.name(),
            safe(self.patch.title(), 200),
        )
    }

    fn ruling(&self) -> String {
        let verdict = self.verdict;
        let (tone, words, mark) = match verdict.verdict {
            VerdictRuling::Approve => ("good", "APPROVE", "M5 12.5l4.5 4.5L19 7.5"),
            VerdictRuling::Reject => ("bad", "REJECT", "M7 7l10 10M17 7L7 17"),
            VerdictRuling::NeedsRevision => ("warn", "NEEDS REVISION", "M12 6v7.5M12 17.5v.5"),
        };
        let reason = verdict.reason.as_deref().filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!("<p><span class=\"tag bad\">{}</span></p>\n", safe(reason, 60)));
        let is_certain = verdict.verdict == VerdictRuling::Reject && verdict.reason.as_deref() != Some("guard_broken");
        let meaning = if is_certain {
            "confidence: chance has no part in this ruling".to_owned()
        } else {
            let all = number(RESAMPLES as f64);
            format!("confidence: so many of {all} resampled evaluations come to this ruling")
        };
        format!(
            "<section class=\"ruling {tone}\">\n<div>\n<p class=\"said\">\
             <svg aria-hidden=\"true\" viewBox=\"0 0 24 24\" fill=\"none\" stroke=\"currentColor\" \
             stroke-width=\"2.4\" \
             stroke-linecap=\"round\" stroke-linejoin=\"round\"><circle cx=\"12\" cy=\"12\" r=\"10.5\"/><path \
             d=\"{mark}\"/></svg>\
             {words}</p>\n<h1>{}</h1>\n{}<p class=\"sum\">{}</p>\n</div>\n\
             <div class=\"sure\"><b>{}</b><span>{meaning}</span></div>\n</section>\n",
            safe(self.patch.title(), 200),
            reason.unwrap_or_default(),
            safe(&verdict.evaluation_summary, 2_000),
            certainty(verdict.confidence),
        )
    }

    fn caveats(&self) -> String {
        let caveats = &self.verdict.caveats;
        if caveats.is_empty() {
            return String::new();
        }
        let items: Vec<String> =
            caveats.iter().take(60).map(|caveat| format!("<li>{}</li>\n", safe(caveat, 400))).collect();
        format!(
            "<section>\n<h2>Before relying on it</h2>\n<div class=\"box\"><ul>\n{}</ul></div>\n{}</section>\n",
            items.concat(),
            more(caveats.len(), 60, "caveats"),
        )
    }
}

/// A column of a table: what stands in its head, and whether it has numbers.
#[derive(Clone, Copy)]
enum Column {
    Words(&'static str),
    Numbers(&'static str),
}

/// A table that can be scrolled where it is too wide. The caption, rows and cells are escaped already.
fn table(caption: &str, columns: &[Column], rows: &[String]) -> String {
    let head = columns.iter().map(|column| match column {
        Column::Words(name) => format!("<th scope=\"col\">{name}</th>"),
        Column::Numbers(name) => format!("<th scope=\"col\" class=\"n\">{name}</th>"),
    });
    format!(
        "<div class=\"scroll\"><table>\n<caption>{caption}</caption>\n<thead><tr>{}</tr></thead>\n\
         <tbody>\n{}</tbody>\n</table></div>\n",
        head.collect::<String>(),
        rows.concat(),
    )
}

/// A row of a table: what it is about, then a cell for each other column, as wide as the columns say.
fn row(columns: &[Column], name: &str, cells: &[String]) -> String {
    let cells = columns.iter().skip(1).zip(cells).map(|(column, cell)| match column {
        Column::Words(_) => format!("<td>{cell}</td>"),
        Column::Numbers(_) => format!("<td class=\"n\">{cell}</td>"),
    });
    format!("<tr><th scope=\"row\" class=\"name\">{name}</th>{}</tr>\n", cells.collect::<String>())
}

/// How many are not shown.
fn more(count: usize, shown: usize, what: &str) -> String {
    if count > shown {
        format!("<p class=\"dim small\">{} more {what} are not shown.</p>\n", count - shown)
    } else {
        String::new()
    }
}

/// A page that stays small: what does not fit is left out whole, so that it stays sound.
struct Page {
    html: String,
    left_out: usize,
}

impl Page {
    fn add(&mut self, section: String) {
        if self.html.len() + section.len() + END_BYTES <= MAX_REPORT_BYTES {
            self.html.push_str(&section);
        } else {
            self.left_out += 1;
        }
    }

    fn end(mut self) -> String {
        if self.left_out > 0 {
            let sections = self.left_out;
            self.html.push_str(&format!(
                "<section><p>{sections} sections are left out: a report has at most {MAX_REPORT_BYTES} \
                 bytes.</p></section>\n"
            ));
        }
        self.html.push_str(
            "<footer>What counts is the signed verdict beside this file, verdict.dsse.json; this page only shows it. \
             docs/reference/verdict.md defines every number.</footer>\n</main>\n</body>\n</html>\n",
        );
        self.html
    }
}

#[cfg(test)]
mod tests;

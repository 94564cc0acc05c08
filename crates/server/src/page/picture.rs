//! The picture of the chain: a skyline of its blocks' bytes, filled by what is known of them.
//!
//! The styles allow no inline style, so everything is placed by SVG's own attributes.

use std::fmt::Write;

use super::state::{BlockKind, Chain, Column, KINDS};
use super::words::{civil, count, date, escape, new_year, share, thousands};

/// Units from the bottom to the top of the picture.
const TOP: u64 = 240;
/// Units of the lowest column, so that the small blocks of the first years are seen.
const LOWEST: u64 = 14;
/// The most labels below the picture: they fit a phone.
const LABELS_MAX: u64 = 5;

/// Returns the class of a kind, which gives it its colour.
fn class(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Scripts => "scripts",
        BlockKind::Assumed => "assumed",
        BlockKind::Proved => "proved",
        BlockKind::Earlier => "earlier",
        BlockKind::Read => "read",
        BlockKind::Stored => "stored",
        BlockKind::Missing => "missing",
    }
}

/// Returns what a kind means.
fn words(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Scripts => "checked, scripts included",
        BlockKind::Assumed => "checked, scripts assumed valid",
        BlockKind::Proved => "proved by SwiftSync",
        BlockKind::Earlier => "in the UTXO set already",
        BlockKind::Read => "read, spends not matched yet",
        BlockKind::Stored => "stored, not connected yet",
        BlockKind::Missing => "still to come",
    }
}

/// Returns the whole figure: both pictures, of which one is shown, and the legend.
pub fn figure(chain: &Chain) -> String {
    // The genesis block alone is no chain to look at.
    if chain.height == 0 {
        return String::new();
    }
    let heights = picture(&chain.by_height, &height_labels(chain.height), chain, "height");
    let times = picture(&chain.by_time, &time_labels(chain.times), chain, "time");
    format!(
        "<h2>The chain</h2>\
         <div class=\"chain\" role=\"group\" aria-label=\"The chain\">\
         <input type=\"radio\" name=\"axis\" id=\"by-height\" checked>\
         <label for=\"by-height\">by height</label>\
         <input type=\"radio\" name=\"axis\" id=\"by-time\">\
         <label for=\"by-time\">by time</label>\
         {heights}{times}</div>{}",
        legend(chain)
    )
}

/// Returns the legend, which says in words and figures what the picture shows.
fn legend(chain: &Chain) -> String {
    let totals = chain.totals();
    let all: u64 = totals.iter().sum();
    let mut out = String::from("<ul class=\"legend\">");
    for (kind, blocks) in BlockKind::ALL.into_iter().zip(totals).filter(|(_, blocks)| *blocks > 0) {
        let share = share(blocks, all);
        let class = class(kind);
        let blocks = count(blocks, "block");
        let words = words(kind);
        let _ = write!(
            out,
            "<li><svg class=\"swatch\" aria-hidden=\"true\">\
             <rect class=\"{class}\" width=\"100%\" height=\"100%\"/></svg>\
             <span><b>{share}&nbsp;%</b> {words} <i>· {blocks}</i></span></li>"
        );
    }
    out + "</ul>"
}

/// A mark on the axis: where, in per cent of its length, and its text.
struct Label {
    at: f64,
    text: String,
}

/// Returns one picture with its axis; `axis` is `height` or `time`.
fn picture(columns: &[Column], labels: &[Label], chain: &Chain, axis: &str) -> String {
    let width = columns.len();
    let mut out = format!(
        "<svg class=\"picture by-{axis}\" role=\"img\" aria-label=\"{}\">\
         <svg width=\"100%\" height=\"88%\" viewBox=\"0 0 {width} {TOP}\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        alternative(chain, axis)
    );
    for (kind, path) in BlockKind::ALL.into_iter().zip(paths(columns)) {
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"{}\" d=\"{path}\"/>", class(kind));
        }
    }
    out.push_str("</svg><g class=\"axis\" aria-hidden=\"true\">");
    for Label { at, text } in labels {
        let anchor = match at {
            ..3.0 => "start",
            97.0.. => "end",
            _ => "middle",
        };
        let _ = write!(
            out,
            "<line x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"88%\" y2=\"90.5%\"/>\
             <text x=\"{at:.2}%\" y=\"99%\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }
    out + "</g></svg>"
}

fn alternative(chain: &Chain, axis: &str) -> String {
    let totals = chain.totals();
    let parts = BlockKind::ALL.into_iter().zip(totals).filter(|(_, blocks)| *blocks > 0);
    let parts: Vec<String> =
        parts.map(|(kind, blocks)| format!("{} {}", count(blocks, "block"), words(kind))).collect();
    let (first, last) = chain.times;
    format!(
        "Blocks 0 to {} by {axis}, from {} to {}: {}",
        thousands(chain.height.into()),
        date(first),
        date(last),
        parts.join("; ")
    )
}

/// Returns the outline of each kind: columns as high as their bytes, filled from the bottom by the
/// shares of the kinds.
fn paths(columns: &[Column]) -> [String; KINDS] {
    let most = columns.iter().map(|column| column.bytes).max().unwrap_or(0);
    let edges: Vec<_> = columns.iter().map(|column| edges(column, most)).collect();
    std::array::from_fn(|kind| {
        let mut path = String::new();
        // Top and bottom of this kind in each column.
        let area = |x: usize| (TOP - edges[x][kind + 1], TOP - edges[x][kind]);
        let is_seen = |x: &usize| area(*x).0 < area(*x).1;
        let mut x = 0;
        while let Some(first) = (x..columns.len()).find(is_seen) {
            let end = (first..columns.len()).find(|x| !is_seen(x)).unwrap_or(columns.len());
            let _ = write!(path, "M{first} {}", area(first).1);
            steps(&mut path, (first..end).map(|x| area(x).0), "h");
            steps(&mut path, (first..end).rev().map(|x| area(x).1), "h-");
            path.push('z');
            x = end;
        }
        path
    })
}

/// Adds a line over columns of these levels; neighbours of one level are one step.
fn steps(path: &mut String, levels: impl Iterator<Item = u64>, step: &str) {
    let mut row = None;
    for level in levels.map(Some).chain([None]) {
        row = match (row, level) {
            (Some((of, width)), Some(level)) if of == level => Some((of, width + 1)),
            (before, level) => {
                if let Some((of, width)) = before {
                    let _ = write!(path, "V{of}{step}{width}");
                }
                level.map(|level| (level, 1))
            }
        };
    }
}

/// Returns where each kind of a column begins, from the bottom, and where the last one ends.
fn edges(column: &Column, most: u64) -> [u64; KINDS + 1] {
    let mut edges = [0; KINDS + 1];
    let all: u64 = column.blocks.iter().map(|blocks| u64::from(*blocks)).sum();
    if all == 0 {
        return edges;
    }
    let share = if most == 0 { 1.0 } else { column.bytes as f64 / most as f64 };
    let height = LOWEST + ((TOP - LOWEST) as f64 * share).round() as u64;
    let mut below = 0;
    for (kind, blocks) in column.blocks.iter().enumerate() {
        below += u64::from(*blocks);
        edges[kind + 1] = (height * below + all / 2) / all;
    }
    edges
}

/// Returns round heights along the axis.
fn height_labels(height: u32) -> Vec<Label> {
    let height = u64::from(height.max(1));
    let mut steps = (0..).flat_map(|tens| [1, 2, 5].map(|n| n * 10_u64.pow(tens)));
    let step = steps.find(|step| height / step <= LABELS_MAX).expect("32 bits");
    let label = |at: u64| Label {
        at: 100.0 * at as f64 / height as f64,
        text: if at > 0 && step >= 1000 {
            format!("{}k", thousands(at / 1000))
        } else {
            thousands(at)
        },
    };
    // The last label stands for itself, not beside another one.
    (0..=height / step).map(|n| label(n * step)).filter(|label| label.at < 94.0).collect()
}

/// Returns years along the axis, or its first and last day if it is short.
fn time_labels((first, last): (i64, i64)) -> Vec<Label> {
    let length = (last - first).max(1) as f64;
    let from = civil(first).0 + 1;
    let to = civil(last).0;
    if to - from < 2 {
        let label = |at, time| Label { at, text: date(time) };
        return vec![label(0.0, first), label(100.0, last)];
    }
    let step = (to - from) as u64 / LABELS_MAX + 1;
    let years = (from..=to).filter(|year| year.unsigned_abs().is_multiple_of(step));
    let at = |year| 100.0 * (new_year(year) - first) as f64 / length;
    let labels = years.map(|year| Label { at: at(year), text: year.to_string() });
    labels.filter(|label| (2.0..98.0).contains(&label.at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(blocks: [u32; KINDS], bytes: u64) -> Column {
        Column { blocks, bytes }
    }

    #[test]
    fn neighbours_of_one_shape_are_one_step() {
        let done = column([10, 0, 0, 0, 0, 0, 0], 100);
        let half = column([5, 0, 0, 0, 0, 0, 5], 100);
        let [scripts, .., missing] = paths(&[done, done, half]);
        assert_eq!(scripts, "M0 240V0h2V120h1V240h-3z");
        assert_eq!(missing, "M2 120V0h1V120h-1z");
    }

    #[test]
    fn the_skyline_follows_the_bytes() {
        let [scripts, ..] =
            paths(&[column([1, 0, 0, 0, 0, 0, 0], 0), column([1, 0, 0, 0, 0, 0, 0], 1_000)]);
        assert_eq!(scripts, "M0 240V226h1V0h1V240h-2z");
        // Without known sizes all columns are equally high, and those without blocks are absent.
        let empty = column([0; KINDS], 0);
        let [.., missing] = paths(&[empty, column([0, 0, 0, 0, 0, 0, 3], 0)]);
        assert_eq!(missing, "M1 240V0h1V240h-1z");
    }

    #[test]
    fn labels_are_round_and_few() {
        let text = |labels: Vec<Label>| -> Vec<String> {
            labels.into_iter().map(|label| label.text).collect()
        };
        assert_eq!(text(height_labels(870_123)), ["0", "200k", "400k", "600k", "800k"]);
        assert_eq!(text(height_labels(14_131)), ["0", "5k", "10k"]);
        assert_eq!(text(height_labels(250)), ["0", "50", "100", "150", "200"]);
        assert_eq!(text(height_labels(0)), ["0"]);
        for height in 0..3_000 {
            assert!(height_labels(height).len() <= 6, "{height}");
        }
        let years = text(time_labels((1_231_006_505, 1_731_006_505)));
        assert_eq!(years, ["2010", "2013", "2016", "2019", "2022"]);
        assert_eq!(text(time_labels((1_231_006_505, 1_242_000_000))).len(), 2);
    }

    #[test]
    fn the_alternative_says_what_is_seen() {
        let by_height = vec![column([3, 0, 0, 0, 0, 0, 0], 9), column([0, 0, 0, 0, 0, 1, 2], 9)];
        let chain = Chain { by_height, height: 5, ..Chain::default() };
        let figure = figure(&chain);
        for words in [
            "3 blocks checked, scripts included",
            "1 block stored, not connected yet",
            "<b>33&nbsp;%</b> still to come <i>· 2 blocks</i>",
        ] {
            assert!(figure.contains(words), "{words}: {figure}");
        }
        assert!(!figure.contains("style="), "{figure}");
    }
}

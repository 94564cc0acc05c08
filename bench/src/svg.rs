//! Plots as SVG. They follow the page's colour scheme, with colours and backgrounds for light and
//! for dark pages.

use std::fmt::Write;

use crate::report::three_digits;

/// A line or a set of points.
pub struct Series {
    /// The series' name in the legend.
    pub name: String,
    /// The points as x and y. On a logarithmic axis values are above 0.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Adds a point to the series of this name, which is created if it does not exist.
    pub fn add_to(all: &mut Vec<Self>, name: String, point: (f64, f64)) {
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Self { name, points: vec![point] }),
        }
    }
}

/// A plot of lines over one x axis.
pub struct Lines<'a> {
    /// The plot's title.
    pub title: &'a str,
    /// The label of the x axis, with its unit.
    pub x: &'a str,
    /// The label of the y axis, with its unit.
    pub y: &'a str,
    /// Whether y is logarithmic; x always is.
    pub log_y: bool,
    /// Formats a number on the x axis.
    pub x_label: fn(f64) -> String,
    /// Formats a number on the y axis.
    pub y_label: fn(f64) -> String,
    /// The series, at most six.
    pub series: Vec<Series>,
}

/// A plot of rows of marks on one logarithmic axis.
pub struct Dots<'a> {
    /// The plot's title.
    pub title: &'a str,
    /// The label of the axis.
    pub x: &'a str,
    /// Formats a number on the axis.
    pub label: fn(f64) -> String,
    /// The kinds of marks, at most six. Those without a name are left out of the legend; the first
    /// is drawn last and filled.
    pub kinds: Vec<&'a str>,
    /// The rows: a name, and marks as the index of a kind and a value.
    pub rows: Vec<(String, Vec<(usize, f64)>)>,
}

/// A plot of horizontal bars from zero.
pub struct Bars<'a> {
    /// The plot's title.
    pub title: &'a str,
    /// The label of the axis.
    pub x: &'a str,
    /// The bars: name, value, and index of its colour.
    pub bars: Vec<(String, f64, usize)>,
}

const WIDTH: f64 = 760.0;
/// Where rows of dots begin: below the title and one line of legend.
const TOP: f64 = 64.0;
const ROW: f64 = 24.0;
const COLORS: usize = 6;

const LIGHT: [&str; COLORS] = ["#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#6e7781"];
const DARK: [&str; COLORS] = ["#4493f8", "#db6d28", "#3fb950", "#ab7df8", "#f85149", "#9198a1"];
const STYLE_LIGHT: &str = "
text{font:13px system-ui,sans-serif;fill:#1f2328}
.title{font-weight:600;font-size:15px}
.small{font-size:12px;fill:#59636e}
.bg{fill:#ffffff}.grid{stroke:#d1d9e0;stroke-width:1}
polyline,.ring{fill:none;stroke-width:2}
";
const STYLE_DARK: &str =
    "text{fill:#f0f6fc}.small{fill:#9198a1}.bg{fill:#0d1117}.grid{stroke:#3d444d}
";

impl Lines<'_> {
    /// Returns the SVG document.
    pub fn svg(&self) -> String {
        let left = 70.0;
        let right = WIDTH - 20.0;
        let height = 420.0;
        let mut out = start(self.title, height);
        let names = self.series.iter().map(|series| (series.name.as_str(), true));
        let under_legend = legend(&mut out, names);
        let top = under_legend + 20.0;
        let bottom = height - 50.0;
        let all = || self.series.iter().flat_map(|series| &series.points);
        let x_axis = Axis::log(all().map(|p| p.0), left, right);
        let y_axis = if self.log_y {
            Axis::log(all().map(|p| p.1), bottom, top)
        } else {
            Axis::from_zero(all().map(|p| p.1), bottom, top)
        };
        for y in y_axis.ticks() {
            let at = y_axis.at(y);
            line(&mut out, (left, at), (right, at));
            text(&mut out, (left - 6.0, at + 4.0), "small", "end", &(self.y_label)(y));
        }
        let mut xs: Vec<f64> = all().map(|p| p.0).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for x in xs {
            let at = x_axis.at(x);
            line(&mut out, (at, top), (at, bottom));
            text(&mut out, (at, bottom + 18.0), "small", "middle", &(self.x_label)(x));
        }
        text(&mut out, ((left + right) / 2.0, height - 12.0), "", "middle", self.x);
        text(&mut out, (12.0, under_legend + 6.0), "small", "start", self.y);
        for (color, series) in self.series.iter().enumerate() {
            let points: Vec<String> = series
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", x_axis.at(*x), y_axis.at(*y)))
                .collect();
            let color = color % COLORS;
            let _ = writeln!(
                out,
                "<polyline class=\"ring c{color}\" points=\"{}\"/>",
                points.join(" ")
            );
            for (x, y) in &series.points {
                circle(&mut out, (x_axis.at(*x), y_axis.at(*y)), color, true);
            }
        }
        out + "</svg>\n"
    }
}

impl Dots<'_> {
    /// Returns the SVG document.
    pub fn svg(&self) -> String {
        let left = 290.0;
        let right = WIDTH - 30.0;
        let bottom = TOP + ROW * self.rows.len() as f64 + 8.0;
        let values = self.rows.iter().flat_map(|(_, marks)| marks.iter().map(|mark| mark.1));
        let axis = Axis::log(values, left, right);
        let mut out = start(self.title, bottom + 46.0);
        legend(&mut out, self.kinds.iter().enumerate().map(|(kind, name)| (*name, kind == 0)));
        for tick in axis.ticks() {
            let at = axis.at(tick);
            line(&mut out, (at, TOP), (at, bottom));
            text(&mut out, (at, bottom + 16.0), "small", "middle", &(self.label)(tick));
        }
        text(&mut out, ((left + right) / 2.0, bottom + 36.0), "", "middle", self.x);
        for (row, (name, marks)) in self.rows.iter().enumerate() {
            let y = TOP + ROW * (row as f64 + 0.5);
            text(&mut out, (left - 16.0, y + 4.0), "", "end", name);
            line(&mut out, (left, y), (right, y));
            for (kind, value) in marks.iter().rev() {
                circle(&mut out, (axis.at(*value), y), kind % COLORS, *kind == 0);
            }
        }
        out + "</svg>\n"
    }
}

impl Bars<'_> {
    /// Returns the SVG document.
    pub fn svg(&self) -> String {
        let left = 290.0;
        let right = WIDTH - 70.0;
        let top = 40.0;
        let bottom = top + ROW * self.bars.len() as f64 + 4.0;
        let axis = Axis::from_zero(self.bars.iter().map(|bar| bar.1), left, right);
        let mut out = start(self.title, bottom + 46.0);
        for tick in axis.ticks() {
            let at = axis.at(tick);
            line(&mut out, (at, top), (at, bottom));
            text(&mut out, (at, bottom + 16.0), "small", "middle", &three_digits(tick));
        }
        text(&mut out, ((left + right) / 2.0, bottom + 36.0), "", "middle", self.x);
        for (row, (name, value, color)) in self.bars.iter().enumerate() {
            let y = top + ROW * row as f64 + 4.0;
            let width = (axis.at(*value) - left).max(1.0);
            let height = ROW - 8.0;
            text(&mut out, (left - 8.0, y + 13.0), "", "end", name);
            let _ = writeln!(
                out,
                "<rect class=\"f{}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\" rx=\"2\"/>",
                color % COLORS
            );
            let end = left + width + 6.0;
            text(&mut out, (end, y + 13.0), "", "start", &three_digits(*value));
        }
        out + "</svg>\n"
    }
}

/// A scale from values to places on the page.
struct Axis {
    log: bool,
    /// The values at both ends, or their logarithms on a logarithmic scale.
    ends: (f64, f64),
    places: (f64, f64),
}

impl Axis {
    fn log(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logs = values.filter(|value| *value > 0.0).map(f64::log10);
        let (min, max) =
            logs.fold((f64::MAX, f64::MIN), |(min, max), log| (min.min(log), max.max(log)));
        let ends = if min > max { (0.0, 1.0) } else { (min - 0.1, max + 0.1) };
        Self { log: true, ends, places: (from, to) }
    }

    fn from_zero(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let max = values.fold(0.0, f64::max);
        let max = if max > 0.0 { max * 1.05 } else { 1.0 };
        Self { log: false, ends: (0.0, max), places: (from, to) }
    }

    fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(1e-300).log10() } else { value };
        let share = (value - self.ends.0) / (self.ends.1 - self.ends.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Returns the marks of an axis: powers of ten, or about five round numbers from zero.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let first = self.ends.0.ceil() as i32;
            let last = self.ends.1.floor() as i32;
            return (first..=last).map(|power| 10f64.powi(power)).collect();
        }
        let rough = self.ends.1 / 5.0;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|n| *n >= rough);
        let step = step.unwrap_or(rough);
        (0..=(self.ends.1 / step) as u32).map(|n| f64::from(n) * step).collect()
    }
}

fn start(title: &str, height: f64) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n\
         <style>{}</style>\n\
         <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n",
        escape(title),
        style()
    );
    text(&mut out, (12.0, 24.0), "title", "start", title);
    out
}

fn style() -> String {
    let classes = |colors: [&str; COLORS]| -> String {
        let class = |(i, color)| format!(".f{i}{{fill:{color}}}.c{i}{{stroke:{color}}}\n");
        colors.into_iter().enumerate().map(class).collect()
    };
    let light = classes(LIGHT);
    let dark = classes(DARK);
    format!("{STYLE_LIGHT}{light}@media (prefers-color-scheme:dark){{\n{STYLE_DARK}{dark}}}")
}

/// Draws the legend below the title, and returns where it ends.
fn legend<'a>(out: &mut String, names: impl Iterator<Item = (&'a str, bool)>) -> f64 {
    let left = 18.0;
    let mut x = 18.0;
    let mut y = 44.0;
    for (color, (name, filled)) in names.enumerate().filter(|(_, (name, _))| !name.is_empty()) {
        let width = 34.0 + 6.8 * name.chars().count() as f64;
        if x > left && x + width > WIDTH {
            (x, y) = (left, y + 20.0);
        }
        circle(out, (x, y), color % COLORS, filled);
        text(out, (x + 10.0, y + 4.0), "", "start", name);
        x += width;
    }
    y + 20.0
}

fn line(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn circle(out: &mut String, (x, y): (f64, f64), color: usize, filled: bool) {
    let class = if filled { format!("f{color}") } else { format!("ring c{color}") };
    let _ = writeln!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>");
}

fn text(out: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" \
         text-anchor=\"{anchor}\">{content}</text>"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_where_their_values_do() {
        let axis = Axis::log([1e-7, 1e-3].into_iter(), 0.0, 100.0);
        assert!(axis.at(1e-7) > 0.0 && axis.at(1e-3) < 100.0);
        assert_eq!(axis.ticks().len(), 5);
        let axis = Axis::from_zero([43.0, 223.0].into_iter(), 100.0, 0.0);
        assert_eq!(axis.at(0.0), 100.0);
        assert_eq!(axis.ticks(), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(Axis::log([].into_iter(), 0.0, 1.0).ticks(), [1.0, 10.0]);
    }

    #[test]
    fn every_mark_is_drawn_and_text_is_escaped() {
        let rows = vec![("a<b".to_string(), vec![(0, 1.0), (1, 20.0)])];
        let kinds = vec!["apus", "other"];
        let dots = Dots { title: "t", x: "s", label: |n| n.to_string(), kinds, rows };
        let svg = dots.svg();
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
    }
}

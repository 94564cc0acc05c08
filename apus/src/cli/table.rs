//! Tables of labels and values, for reports.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};

use super::output::escaped;

/// Columns between labels and values.
const GAP: usize = 2;
/// Values are wrapped to no fewer columns than this.
const VALUE_COLUMNS_MIN: usize = 24;

/// The style of a label, by what its row is about.
const PLAIN: Style = Style::new().dimmed();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Rows with a label and a value each. The codes for colours are always in the text: `output::line`
/// leaves them out where the terminal does not want them.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

struct Row {
    label: &'static str,
    value: String,
    style: Style,
}

impl Table {
    /// Adds a row.
    pub fn row(&mut self, label: &'static str, value: impl Into<String>) {
        self.rows.push(Row { label, value: escaped(value.into()), style: PLAIN });
    }

    /// Adds a row, if there is a value.
    pub fn row_if(&mut self, label: &'static str, value: Option<String>) {
        if let Some(value) = value {
            self.row(label, value);
        }
    }

    /// Adds a row that warns.
    pub fn warn(&mut self, label: &'static str, value: impl Into<String>) {
        self.rows.push(Row { label, value: escaped(value.into()), style: WARNING });
    }

    /// Returns the table as text that ends with a newline, or nothing if it is empty. Labels take
    /// at least `labels` columns. On a terminal of `columns`, long values are wrapped.
    pub fn text(&self, labels: usize, columns: Option<usize>) -> String {
        let labels = labels.max(self.label_columns()) + GAP;
        let room = columns.map(|columns| columns.saturating_sub(labels).max(VALUE_COLUMNS_MIN));
        let mut text = String::new();
        for Row { label, value, style } in &self.rows {
            text += &format!("{style}{label}{style:#}{:1$}", "", labels - label.chars().count());
            text += &wrapped(value, room).join(&format!("\n{:labels$}", ""));
            text.push('\n');
        }
        text
    }

    /// Returns the columns of the longest label.
    pub fn label_columns(&self) -> usize {
        self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0)
    }
}

/// Returns the lines of `text`, broken between words to fit `columns`.
fn wrapped(text: &str, columns: Option<usize>) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        let is_over = |columns| line.chars().count() + 1 + word.chars().count() > columns;
        if !line.is_empty() && columns.is_some_and(is_over) {
            lines.push(word.to_string());
        } else {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines
}

/// Returns the columns of the terminal on standard output; `None` if there is none.
pub fn stdout_columns() -> Option<usize> {
    let stdout = io::stdout();
    let (width, _) = stdout.is_terminal().then(|| terminal_size::terminal_size_of(stdout))??;
    Some(width.0.into()).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        table.row("coins", "13,416");
        table.row_if("nothing", None);
        table.warn("not checked", "scripts and amounts in blocks 1 to 14,131");
        table
    }

    #[test]
    fn values_are_aligned_and_wrapped_below_each_other() {
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain(table().text(0, None)),
            "coins        13,416\nnot checked  scripts and amounts in blocks 1 to 14,131\n"
        );
        assert_eq!(
            plain(table().text(0, Some(38))),
            "coins        13,416\n\
             not checked  scripts and amounts in\n             blocks 1 to 14,131\n"
        );
        // However narrow the terminal is, words stay whole.
        let narrow = plain(table().text(0, Some(1)));
        assert!(narrow.contains("scripts and amounts in\n"), "{narrow}");
        assert_eq!(Table::default().text(9, None), "");
    }

    #[test]
    fn colours_are_in_the_text() {
        let text = table().text(0, None);
        assert!(text.starts_with("\u{1b}["), "{text:?}");
    }
}

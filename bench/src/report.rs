use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{Result, machine};

/// The content of a cell. JSON contains the plain number.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// An empty cell.
    Empty,
    /// A text.
    Text(String),
    /// A time in seconds.
    Seconds(f64),
    /// A count.
    Count(u64),
    /// An amount of memory or disk space in bytes.
    Bytes(u64),
    /// A number in the unit that the column's head names.
    Number(f64),
    /// The ratio to another value.
    Ratio(f64),
}

/// A table. Each column has a key for JSON and a head for readers.
#[derive(Clone, Debug)]
pub struct Table {
    /// The table's title.
    pub title: String,
    columns: Vec<(String, String)>,
    rows: Vec<Vec<Cell>>,
}

/// The results of one benchmark.
pub struct Report {
    /// The name of the benchmark and of its files.
    pub name: &'static str,
    facts: Value,
    /// Notes for the reader on what was measured and how.
    pub notes: Vec<String>,
    /// The tables of figures.
    pub tables: Vec<Table>,
}

impl Report {
    /// Creates an empty report with the facts of this machine.
    pub fn new(name: &'static str) -> Self {
        let facts = machine::facts();
        Self { name, facts, notes: Vec::new(), tables: Vec::new() }
    }

    /// Formats the report as Markdown, in columns that line up on a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("## {}\n\n{}\n\n", self.name, machine::line(&self.facts));
        for note in &self.notes {
            out.push_str(&format!("- {note}\n"));
        }
        for table in &self.tables {
            out.push_str(&format!("\n{}", table.text()));
        }
        out
    }

    /// Formats the report as JSON. Each table is a list of objects.
    pub fn json(&self) -> Value {
        let tables: Map<String, Value> =
            self.tables.iter().map(|table| (table.title.clone(), table.json())).collect();
        json!({
            "benchmark": self.name,
            "machine": self.facts,
            "notes": self.notes,
            "tables": tables,
        })
    }

    /// Writes the report as `NAME.json` into `directory`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let json = serde_json::to_string_pretty(&self.json())?;
        std::fs::write(directory.join(format!("{}.json", self.name)), json + "\n")?;
        Ok(())
    }
}

impl Table {
    /// Creates a table without rows.
    pub fn new(title: &str, columns: &[(&str, &str)]) -> Self {
        let columns = columns.iter().map(|(key, head)| (key.to_string(), head.to_string()));
        Self { title: title.to_string(), columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.columns.len(), Cell::Empty);
        self.rows.push(row);
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    fn text(&self) -> String {
        let heads = self.columns.iter().map(|(_, head)| head.clone()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
        let is_text = |column: usize| {
            let mut cells = self.rows.iter().map(|row| &row[column]);
            cells.all(|cell| matches!(cell, Cell::Text(_) | Cell::Empty))
        };
        let width = |column: usize| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        };
        let columns: Vec<(usize, bool)> =
            (0..self.columns.len()).map(|column| (width(column), is_text(column))).collect();
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = columns.iter().map(|(width, left)| {
            let dashes = "-".repeat(width.saturating_sub(1));
            if *left { format!(":{dashes}") } else { format!("{dashes}:") }
        });
        let mut lines = lines.iter().map(|line| {
            let cells = line.iter().zip(&columns).map(|(cell, (width, left))| {
                if *left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            row(cells.collect())
        });
        let mut out = format!("### {}\n\n", self.title);
        out.extend(lines.next());
        out.push_str(&row(rule.collect()));
        out.extend(lines);
        out
    }

    fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let fields = self.columns.iter().zip(row);
            let filled = fields.filter(|(_, cell)| **cell != Cell::Empty);
            filled.map(|((key, _), cell)| (key.clone(), cell.json())).collect::<Map<_, _>>()
        };
        self.rows.iter().map(object).map(Value::Object).collect()
    }
}

impl Cell {
    pub fn text_of(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a cell with a digest, as hex digits.
    pub fn digest(digest: u64) -> Self {
        Self::Text(format!("{digest:016x}"))
    }

    /// Formats the cell as it is shown in a table.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.clone(),
            Self::Seconds(seconds) => duration(*seconds),
            Self::Count(count) => apus::thousands(*count),
            Self::Bytes(bytes) => size(*bytes),
            Self::Number(number) => three_digits(*number),
            Self::Ratio(ratio) => format!("{}×", three_digits(*ratio)),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Text(text) => json!(text),
            Self::Seconds(n) | Self::Number(n) | Self::Ratio(n) => json!(n),
            Self::Count(n) | Self::Bytes(n) => json!(n),
        }
    }
}

/// Formats a time in a suitable unit.
pub fn duration(seconds: f64) -> String {
    let (factor, unit) = match seconds {
        s if s < 1e-6 => (1e9, "ns"),
        s if s < 1e-3 => (1e6, "µs"),
        s if s < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    format!("{} {unit}", three_digits(seconds * factor))
}

/// Formats bytes in a suitable unit.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b < 1e6 => format!("{} kB", three_digits(b / 1e3)),
        b if b < 1e9 => format!("{} MB", three_digits(b / 1e6)),
        b => format!("{} GB", three_digits(b / 1e9)),
    }
}

/// Formats a number with three significant digits.
pub fn three_digits(number: f64) -> String {
    match number.abs() {
        n if n >= 99.95 => format!("{number:.0}"),
        n if n >= 9.995 => format!("{number:.1}"),
        n if n >= 0.9995 || n == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short_and_json_is_exact() {
        let shown = [
            (Cell::Seconds(5.4e-8), "54.0 ns"),
            (Cell::Seconds(0.00127), "1.27 ms"),
            (Cell::Seconds(223.0), "223 s"),
            (Cell::Count(10_400_000), "10,400,000"),
            (Cell::Bytes(2_100_000_000), "2.10 GB"),
            (Cell::Ratio(4.0), "4.00×"),
        ];
        for (cell, text) in shown {
            assert_eq!(cell.text(), text);
        }
        let mut table = Table::new("t", &[("name", "name"), ("n", "number"), ("rest", "")]);
        table.push(vec![Cell::text_of("a"), Cell::Number(1.5)]);
        table.push(vec![Cell::text_of("bcd"), Cell::Number(12.345)]);
        assert_eq!(table.json(), json!([{"name": "a", "n": 1.5}, {"name": "bcd", "n": 12.345}]));
        let text = "### t\n\n| name | number |  |\n| :--- | -----: | : |\n\
                    | a    |   1.50 |  |\n| bcd  |   12.3 |  |\n";
        assert_eq!(table.text(), text);
    }
}

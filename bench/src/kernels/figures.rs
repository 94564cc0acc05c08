use std::time::Duration;

use crate::Result;
use crate::report::{Cell, Table, three_digits};

/// Whose code performs an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Apus.
    Apus,
    /// Another crate, or a way that Apus does not use.
    Other,
}

/// The amount of work in one run of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// A number of bytes.
    Bytes(usize),
    /// A number of records. The time shown is per record.
    Records(u64),
}

struct Figure {
    what: &'static str,
    by: String,
    kind: Kind,
    seconds: f64,
    amount: Amount,
    digest: u64,
}

/// The times of operations, each done in several ways.
#[derive(Default)]
pub struct Figures {
    figures: Vec<Figure>,
}

impl Figures {
    /// Adds the time of the operation `what` done in the way `by`, with a digest of its result.
    ///
    /// # Errors
    /// The result differs from that of another way to do the same.
    pub fn add(
        &mut self,
        what: &'static str,
        (kind, by): (Kind, &str),
        amount: Amount,
        time: Duration,
        digest: u64,
    ) -> Result<()> {
        let same = self.figures.iter().filter(|figure| figure.what == what);
        for other in same {
            if other.digest != digest {
                let error = format!("{what}: {by} has another result than {}", other.by);
                return Err(error.into());
            }
        }
        let each = match amount {
            Amount::Records(count) => count.max(1) as f64,
            Amount::Bytes(_) => 1.0,
        };
        let seconds = time.as_secs_f64() / each;
        self.figures.push(Figure { what, by: by.to_string(), kind, seconds, amount, digest });
        Ok(())
    }

    /// Returns all times as a table, with the ways to do the same in adjacent rows.
    pub fn table(&self, title: &str) -> Table {
        let columns = [
            ("what", "what"),
            ("by", "by"),
            ("seconds", "time"),
            ("rate", "rate"),
            ("times_apus", "×"),
            ("digest", "digest of the result"),
        ];
        let mut table = Table::new(title, &columns);
        for what in self.whats() {
            for figure in self.figures.iter().filter(|figure| figure.what == what) {
                let apus = self.apus(what);
                let times = |apus| Cell::Ratio(figure.seconds / apus);
                table.push(vec![
                    Cell::text_of(what),
                    Cell::text_of(figure.by.as_str()),
                    Cell::Seconds(figure.seconds),
                    Cell::text_of(figure.rate()),
                    apus.map_or(Cell::Empty, times),
                    Cell::digest(figure.digest),
                ]);
            }
        }
        table
    }

    fn whats(&self) -> Vec<&'static str> {
        let mut whats = Vec::new();
        for figure in &self.figures {
            if !whats.contains(&figure.what) {
                whats.push(figure.what);
            }
        }
        whats
    }

    /// Returns the time of the first of Apus' ways, in seconds.
    fn apus(&self, what: &str) -> Option<f64> {
        let ours = |figure: &&Figure| figure.what == what && figure.kind == Kind::Apus;
        self.figures.iter().find(ours).map(|figure| figure.seconds)
    }
}

impl Figure {
    fn rate(&self) -> String {
        match self.amount {
            Amount::Bytes(bytes) => {
                format!("{} GB/s", three_digits(bytes as f64 / self.seconds / 1e9))
            }
            Amount::Records(_) => format!("{} M/s", three_digits(1e-6 / self.seconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_result_is_an_error() {
        let mut figures = Figures::default();
        let time = Duration::from_micros(2);
        let add = |figures: &mut Figures, kind, digest| {
            figures.add("x", (kind, "way"), Amount::Records(2), time, digest)
        };
        add(&mut figures, Kind::Apus, 7).unwrap();
        add(&mut figures, Kind::Other, 7).unwrap();
        assert!(add(&mut figures, Kind::Other, 8).is_err());
        assert_eq!(figures.apus("x"), Some(1e-6));
        assert_eq!(figures.table("t").rows().len(), 2);
    }
}

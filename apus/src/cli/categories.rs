//! The categories of `--debug`, by Core's names.

/// The categories that events of Apus have; Core has more.
pub const CATEGORIES: [&str; 10] = [
    "bench",
    "blockstorage",
    "coindb",
    "http",
    "leveldb",
    "net",
    "prune",
    "reindex",
    "rpc",
    "validation",
];
/// The value that asks for a trace ([`super::trace`]) in place of lines.
const TRACE: &str = "trace";
/// Values that mean all categories to Core.
const ALL: [&str; 3] = ["all", "1", ""];
/// Values that mean no category to Core; they cancel all that were named before.
const NONE: [&str; 2] = ["none", "0"];

/// The categories that are logged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Categories {
    /// Whether all categories are logged, and events without a category.
    all: bool,
    named: Vec<String>,
    trace: bool,
}

impl Categories {
    /// Returns the categories that the values of `--debug` name, in order.
    ///
    /// # Errors
    /// A value names no category.
    pub fn of(values: &[String]) -> Result<Self, String> {
        let mut categories = Self::default();
        for value in values {
            match value.as_str() {
                all if ALL.contains(&all) => categories.all = true,
                none if NONE.contains(&none) => categories = Self::default(),
                TRACE => categories.trace = true,
                known if CATEGORIES.contains(&known) => categories.named.push(value.clone()),
                unknown => {
                    return Err(format!(
                        "Unsupported logging category -debug={unknown}: use all, {TRACE}, or one \
                         of {}",
                        CATEGORIES.join(", ")
                    ));
                }
            }
        }
        Ok(categories)
    }

    /// Returns whether a trace is wanted.
    pub fn trace(&self) -> bool {
        self.trace
    }

    /// Returns the categories that are logged; `all` for all of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.all.then_some("all");
        all.into_iter().chain(self.named.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_cores() {
        let of = |values: &[&str]| {
            Categories::of(&values.iter().map(|value| value.to_string()).collect::<Vec<_>>())
        };
        assert!(of(&[]).unwrap() == Categories::default());
        assert!(of(&["net", "0"]).unwrap() == Categories::default());
        assert!(of(&["none", "all"]).unwrap().names().eq(["all"]));
        let both = of(&["net", "bench"]).unwrap();
        assert!(both.names().eq(["net", "bench"]));
        let traced = of(&["trace", "net"]).unwrap();
        assert!(traced.trace() && traced.names().eq(["net"]));
        let error = of(&["net", "qt"]).unwrap_err();
        assert!(error.starts_with("Unsupported logging category -debug=qt"), "{error}");
    }
}

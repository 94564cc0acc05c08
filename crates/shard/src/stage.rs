/// A stage of a job. The tasks of a stage need the results of all tasks of the stages before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reads a span of heights.
    Read,
    /// Matches a partition of txids.
    Match,
    /// Checks a bucket of blocks.
    Check,
    /// Puts the results together.
    Finish,
}

impl Stage {
    /// Returns the name of the command that runs a task of this stage.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Match => "match",
            Self::Check => "check",
            Self::Finish => "finish",
        }
    }

    /// Returns the option that gives the number of a task.
    pub fn option(self) -> &'static str {
        match self {
            Self::Read => "--span",
            Self::Match => "--partition",
            Self::Check | Self::Finish => "--bucket",
        }
    }

    /// Returns the stage and the number of the task whose result has this name; `None` for a name
    /// of another kind.
    pub fn of_pack(name: &str) -> Option<(Self, usize)> {
        let (stage, rest) = name.trim_end_matches(".done").split_once('-')?;
        let (number, end) = rest.split_once('-')?;
        let known = [Self::Read, Self::Match, Self::Check];
        let stage = known.into_iter().find(|known| known.name() == stage)?;
        end.parse::<u32>().ok()?;
        Some((stage, number.parse().ok()?))
    }

    /// Returns the name of the result of the task `number` that looks at no block from the height
    /// `end` on.
    pub fn pack(self, number: usize, end: u32) -> String {
        format!("{}-{number:05}-{end:08}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_result_tells_its_task() {
        for stage in [Stage::Read, Stage::Match, Stage::Check] {
            for (number, end) in [(0, 1), (17, 950_000), (123_456, u32::MAX)] {
                let name = stage.pack(number, end);
                assert_eq!(Stage::of_pack(&name), Some((stage, number)), "{name}");
                assert_eq!(Stage::of_pack(&format!("{name}.done")), Some((stage, number)));
            }
        }
        for other in ["job", "job.done", "script-difference-1.json", "read-x-1", "finish-1-2"] {
            assert_eq!(Stage::of_pack(other), None, "{other}");
        }
    }
}

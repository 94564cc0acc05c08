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

    /// Returns the name of the result of the task `number` that looks at no block from the height
    /// `end` on.
    pub fn pack(self, number: usize, end: u32) -> String {
        format!("{}-{number:05}-{end:08}", self.name())
    }
}

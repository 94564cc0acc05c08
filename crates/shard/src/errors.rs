//! The errors of tasks, and of what is asked for too early.

use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_progress::words::shell_word;

use super::job::Job;
use super::results::Results;
use super::stage::Stage;

/// Returns the error for tasks that have to run first.
pub fn missing(job: &Job, results: &Results) -> SyncError {
    let Results { stage, missing, end, .. } = results;
    let below = if *end < job.whole_end() {
        format!("the job ends below block {end}, so some tasks run again; ")
    } else {
        String::new()
    };
    let first = missing.first().copied().unwrap_or_default();
    SyncError::Input(format!(
        "{below}tasks without a result that come first: {}, such as `apus shard {} --job {} {} \
         {first}`",
        missing.len(),
        stage.name(),
        job.objects.url(),
        stage.option(),
    ))
}

/// Returns the error of a task that has failed.
pub fn error(job: &Job, fault: Fault) -> SyncError {
    match fault {
        Fault::Stopped => SyncError::Stopped,
        Fault::Store(error) | Fault::Full(error) => error.into(),
        Fault::Damaged(step, what) => job.error_at(job.tree.node(step.id).height, what).into(),
        Fault::Unjudged(height) => job.error_at(height, "it cannot be judged here".into()).into(),
        _ => SyncError::Input("a task of a job meets only what a join meets".to_string()),
    }
}

/// Adds to the error about a damaged result the command that writes it again.
pub fn with_again(job: &Job, error: SyncError) -> SyncError {
    let SyncError::Store(mut error) = error else { return error };
    let is_missing = |why: &std::io::Error| why.kind() == std::io::ErrorKind::NotFound;
    let is_of_system = error.source.as_ref().is_some_and(|why| !is_missing(why));
    let name = error.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some((stage, number)) = Stage::of_pack(name)
        && error.path == job.objects.path(name)
        && !is_of_system
        && !error.what.contains("another job")
    {
        let command = stage.name();
        let option = stage.option();
        let url = shell_word(job.objects.url());
        let why = error.source.take().map_or_else(String::new, |why| format!(": {why}"));
        error.what += &format!(
            "{why}; write it again: `apus shard {command} --job {url} {option} {number} --again`"
        );
    }
    error.into()
}

/// Returns the error for results that do not fit each other.
pub fn unfit(what: String) -> SyncError {
    SyncError::Unproved(format!("the results do not fit each other: {what}"))
}

/// Returns the error for a task that was never run, and so cannot be compared.
pub fn nothing_to_compare(stage: Stage, number: usize) -> SyncError {
    let name = stage.name();
    SyncError::Input(format!("{name} {number} has no result to compare with: run it first"))
}

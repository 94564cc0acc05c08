//! The threads of SwiftSync: workers that take block after block, and the coordinator that notes
//! what is done and saves it now and then.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::fault::Fault;
use super::job::{Done, Job};
use super::tally::Gathered;
use super::worker::Worker;
use crate::swiftsync::Aggregate;

/// How often the coordinator looks up from waiting.
const WAIT: Duration = Duration::from_millis(100);

/// What workers tell the coordinator.
enum Event<A> {
    Done(Done),
    /// A worker hands over what it has, and waits.
    Paused(Box<Gathered<A>>),
    /// A worker hands over what it has, and has ended: there are no more blocks.
    Ended(Box<Gathered<A>>),
    Failed(Fault),
    /// A worker has panicked.
    Panicked,
}

/// How a run ended.
pub(super) enum Ended {
    /// Every step is done.
    Done,
    /// Someone asked to stop.
    Stopped,
}

/// What the coordinator is asked to do with what workers report.
pub(super) trait Coordinate<A> {
    /// A block is done.
    fn done(&mut self, done: Done);
    /// What a worker has gathered.
    fn gather(&mut self, gathered: Gathered<A>);
    /// Everything done so far was gathered: time to make it durable.
    fn save(&mut self) -> Result<(), Fault>;
    /// Somebody may want to see how far it is.
    fn report(&mut self);
}

/// The gate at which workers wait while what they handed over is saved.
struct Gate {
    /// Whether it is closed, and how often it was opened.
    state: Mutex<(bool, u64)>,
    opened: Condvar,
}

impl Gate {
    fn close(&self) {
        self.lock().0 = true;
    }

    fn open(&self) {
        let mut state = self.lock();
        *state = (false, state.1 + 1);
        self.opened.notify_all();
    }

    /// How often it was opened, to be told to [`Gate::wait`].
    fn openings(&self) -> u64 {
        self.lock().1
    }

    /// Waits until it is open, or was since it had been opened `before` times: whoever wakes late
    /// finds it closed for the next time, for which it has handed over nothing yet.
    fn wait(&self, before: u64) {
        let mut state = self.lock();
        while *state == (true, before) {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, (bool, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `threads` workers over everything to do in `job`; saves every `save_every` and when `stop`
/// becomes true.
pub(super) fn run<A: Aggregate>(
    job: &Job,
    threads: usize,
    save_every: Duration,
    stop: &AtomicBool,
    coordinator: &mut dyn Coordinate<A>,
) -> Result<Ended, Fault> {
    let gate = Gate { state: Mutex::new((false, 0)), opened: Condvar::new() };
    let quit = AtomicBool::new(false);
    // A few bytes for each block, so that nothing but blocks holds a worker up.
    let (sender, events) = unbounded();
    let left = events.clone();
    let result = thread::scope(|scope| {
        for number in 0..threads {
            let (sender, gate, quit) = (sender.clone(), &gate, &quit);
            thread::Builder::new()
                .name(format!("apus-swift-{number}"))
                .spawn_scoped(scope, move || Thread::<A> { job, gate, quit, sender }.run())
                .expect("the system lets us start a thread");
        }
        drop(sender);
        let _ending = Ending { job, gate: &gate, quit: &quit };
        let mut conductor =
            Conductor { job, gate: &gate, events, alive: threads, coordinator: &mut *coordinator };
        conductor.conduct(save_every, stop)
    });
    // Whatever ended it: these blocks are stored.
    for event in left.try_iter() {
        if let Event::Done(done) = event {
            coordinator.done(done);
        }
    }
    result
}

/// Ends all workers when it is dropped, those at the gate too, even in a panic.
struct Ending<'a> {
    job: &'a Job<'a>,
    gate: &'a Gate,
    quit: &'a AtomicBool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.quit.store(true, SeqCst);
        self.job.pause.store(false, SeqCst);
        self.gate.open();
    }
}

struct Thread<'a, A> {
    job: &'a Job<'a>,
    gate: &'a Gate,
    quit: &'a AtomicBool,
    sender: Sender<Event<A>>,
}

impl<A: Aggregate> Thread<'_, A> {
    fn run(self) {
        let mut worker = Worker::<A>::new(self.job);
        loop {
            if self.job.pause.load(SeqCst) {
                let openings = self.gate.openings();
                let event = match worker.hand_over() {
                    Ok(gathered) => Event::Paused(Box::new(gathered)),
                    Err(fault) => Event::Failed(fault),
                };
                if self.sender.send(event).is_err() {
                    return;
                }
                self.gate.wait(openings);
            }
            if self.quit.load(SeqCst) {
                return;
            }
            let event = match worker.next() {
                Some(Ok(done)) => Event::Done(done),
                Some(Err(fault)) => Event::Failed(fault),
                None => match worker.hand_over() {
                    Ok(gathered) => Event::Ended(Box::new(gathered)),
                    Err(fault) => Event::Failed(fault),
                },
            };
            let ends = !matches!(event, Event::Done(_));
            if self.sender.send(event).is_err() || ends {
                return;
            }
        }
    }
}

impl<A> Drop for Thread<'_, A> {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.sender.send(Event::Panicked);
        }
    }
}

struct Conductor<'a, A> {
    job: &'a Job<'a>,
    gate: &'a Gate,
    events: Receiver<Event<A>>,
    /// Workers that have not ended.
    alive: usize,
    coordinator: &'a mut dyn Coordinate<A>,
}

impl<A> Conductor<'_, A> {
    fn conduct(&mut self, save_every: Duration, stop: &AtomicBool) -> Result<Ended, Fault> {
        let mut last_save = Instant::now();
        while self.alive > 0 {
            match self.events.recv_timeout(WAIT) {
                Ok(event) => drop(self.take(event)?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("all workers have ended"),
            }
            self.coordinator.report();
            let stopping = stop.load(Relaxed);
            if stopping || last_save.elapsed() > save_every {
                self.pause_and_save()?;
                last_save = Instant::now();
                if stopping {
                    return Ok(Ended::Stopped);
                }
                self.job.pause.store(false, SeqCst);
                self.gate.open();
            }
        }
        Ok(Ended::Done)
    }

    /// Takes note of an event; whether a worker waits at the gate now.
    fn take(&mut self, event: Event<A>) -> Result<bool, Fault> {
        match event {
            Event::Done(done) => self.coordinator.done(done),
            Event::Paused(gathered) => {
                self.coordinator.gather(*gathered);
                return Ok(true);
            }
            Event::Ended(gathered) => {
                self.alive -= 1;
                self.coordinator.gather(*gathered);
            }
            Event::Failed(fault) => return Err(fault),
            Event::Panicked => panic!("a worker has panicked"),
        }
        Ok(false)
    }

    /// Has every worker hand over what it has, and saves all of it; the gate stays closed.
    fn pause_and_save(&mut self) -> Result<(), Fault> {
        self.gate.close();
        self.job.pause.store(true, SeqCst);
        let mut waiting = 0;
        while waiting < self.alive {
            match self.events.recv() {
                Ok(event) => waiting += usize::from(self.take(event)?),
                Err(_) => panic!("all workers have ended"),
            }
        }
        self.coordinator.save()
    }
}

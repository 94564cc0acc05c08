//! Reads what is needed next in other threads, since an object store answers after tens of
//! milliseconds and a network file system after some.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use apus_disk::lock;
use apus_host::threads;

/// Number of threads that read.
const THREADS: usize = 4;

/// The results of reading numbered items, in order, some of which are read ahead of use.
pub struct Ahead<R> {
    queue: Arc<Queue<R>>,
}

struct Queue<R> {
    read: Box<dyn Fn(usize) -> R + Send + Sync>,
    count: usize,
    /// Most items that are read and not taken, those being read included.
    ahead: usize,
    state: Mutex<AheadState<R>>,
    changed: Condvar,
}

struct AheadState<R> {
    /// The next item to read.
    next: usize,
    /// The next item to take.
    taken: usize,
    ready: BTreeMap<usize, R>,
    has_ended: bool,
    has_panicked: bool,
}

impl<R: Send + 'static> Ahead<R> {
    /// Begins to read `count` items with `read`, at most `ahead` of them before they are taken.
    pub fn new(
        count: usize,
        ahead: usize,
        read: impl Fn(usize) -> R + Send + Sync + 'static,
    ) -> Self {
        let next = 0;
        let taken = 0;
        let ready = BTreeMap::new();
        let state = AheadState { next, taken, ready, has_ended: false, has_panicked: false };
        let read = Box::new(read);
        let state = Mutex::new(state);
        let queue = Arc::new(Queue { read, count, ahead, state, changed: Condvar::new() });
        for _ in 0..THREADS.min(count) {
            let queue = Arc::clone(&queue);
            // Without threads, each item is read when it is taken.
            threads::spawn_free("apus-ahead".to_string(), move || queue.work());
        }
        Self { queue }
    }

    /// Returns the next item; `None` after the last.
    ///
    /// # Panics
    /// Reading it has panicked.
    pub fn next(&self) -> Option<R> {
        let mut state = lock(&self.queue.state);
        let index = state.taken;
        if index == self.queue.count {
            return None;
        }
        state.taken += 1;
        self.queue.changed.notify_all();
        loop {
            assert!(!state.has_panicked, "a thread that reads ahead has panicked");
            if let Some(result) = state.ready.remove(&index) {
                return Some(result);
            }
            if state.next == index {
                state.next += 1;
                drop(state);
                return Some((self.queue.read)(index));
            }
            let waited = self.queue.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<R> Queue<R> {
    fn work(&self) {
        let _panics = NotePanic(self);
        let mut state = lock(&self.state);
        loop {
            if state.has_ended || state.next == self.count {
                return;
            }
            if state.next >= state.taken + self.ahead {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let index = state.next;
            state.next += 1;
            drop(state);
            let result = (self.read)(index);
            state = lock(&self.state);
            state.ready.insert(index, result);
            self.changed.notify_all();
        }
    }
}

/// Tells the thread that waits for items that none will come.
struct NotePanic<'a, R>(&'a Queue<R>);

impl<R> Drop for NotePanic<'_, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.state).has_panicked = true;
            self.0.changed.notify_all();
        }
    }
}

impl<R> Drop for Ahead<R> {
    fn drop(&mut self) {
        lock(&self.queue.state).has_ended = true;
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn items_come_in_order_and_few_of_them_wait() {
        for (count, ahead) in [(0, 3), (1, 1), (50, 1), (500, 7)] {
            let read = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&read);
            let items = Ahead::new(count, ahead, move |index| {
                counted.fetch_add(1, Relaxed);
                index * 3
            });
            for index in 0..count {
                assert!(read.load(Relaxed) <= index + ahead);
                assert_eq!(items.next(), Some(index * 3));
            }
            assert_eq!((items.next(), read.load(Relaxed)), (None, count));
        }
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_panic_while_reading_reaches_the_reader() {
        let items = Ahead::new(9, 3, |index| assert!(index < 4, "item {index} panicked"));
        while items.next().is_some() {}
    }
}

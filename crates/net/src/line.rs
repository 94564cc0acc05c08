//! The line of a peer: its speed, its round trip, and the time of its last byte.

use std::time::Duration;

/// How far the measurement of the speed looks back, in time during which the peer was sending.
const LOOK_BACK: Duration = Duration::from_secs(3);
/// How long the speed of the last bytes is measured at least, and for at least a round trip.
const RECENT_TIME: Duration = Duration::from_millis(200);
/// How long a peer is measured before its speed is known.
const SPEED_TIME: Duration = Duration::from_millis(100);
/// How long a peer is measured before its speed is remembered.
const SETTLED_TIME: Duration = Duration::from_secs(3);
/// The round trip that is assumed before it was measured.
const ROUND_TRIP_FIRST: Duration = Duration::from_millis(200);
/// A peer is quiet if nothing has come for this long, and for a number of round trips.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_ROUND_TRIPS: u32 = 3;

/// The line of a peer.
#[derive(Default)]
pub struct Line {
    /// Bytes of blocks that have come in all, complete or not.
    bytes: u64,
    /// Bytes of the blocks that are complete.
    complete: u64,
    /// Bytes that came and the time that they took, of complete blocks.
    measured: (u64, Duration),
    flow: Flow,
    /// Bytes that had come at a time from which on the speed of the last bytes is measured.
    recent_since: Option<(u64, Duration)>,
    /// Bytes a second that came last.
    recent: f64,
    /// When a byte came, or the peer was asked while it was idle.
    progress: Duration,
    /// The same, without bytes of the block that is not complete.
    progress_complete: Duration,
    now: Duration,
    round_trip: Option<Duration>,
    is_settled: bool,
}

/// The progress of the block that is not complete.
#[derive(Clone, Copy, Default)]
enum Flow {
    /// Nothing is to come.
    #[default]
    Idle,
    /// An idle peer was asked at this time, and no byte has come.
    Asked(Duration),
    /// Bytes have come since this time, or since the block before was complete.
    Since(Duration),
    /// The block before was complete at the first time, and this one was requested so late that its
    /// first byte is to come at the second.
    Later(Duration, Duration),
}

impl Line {
    /// Records a request to a peer that had nothing to send.
    pub fn begin(&mut self, now: Duration) {
        (self.progress, self.progress_complete, self.now) = (now, now, now);
        (self.flow, self.recent_since) = (Flow::Asked(now), None);
    }

    /// Records how many bytes of blocks have come in all.
    pub fn heard(&mut self, bytes: u64, now: Duration) {
        self.now = now;
        if bytes <= self.bytes {
            return;
        }
        (self.bytes, self.progress) = (bytes, now);
        self.flow = match self.flow {
            Flow::Asked(asked) => {
                let sample = now.saturating_sub(asked);
                let known = self.round_trip.unwrap_or(sample);
                self.round_trip = Some((known * 7 + sample) / 8);
                Flow::Since(now)
            }
            // The time until the answer to a late request is no fault of the line.
            Flow::Later(_, first) if first <= now => Flow::Since(first),
            Flow::Later(since, _) => Flow::Since(since),
            flow => flow,
        };
        let (before, since) = *self.recent_since.get_or_insert((self.bytes, now));
        let time = now.saturating_sub(since);
        if time >= RECENT_TIME.max(self.round_trip()) {
            let speed = (self.bytes - before) as f64 / time.as_secs_f64();
            // It falls slowly, since a peer that was asked for too little looks slow.
            self.recent = speed.max(self.recent / 4.0 * 3.0);
            self.recent_since = Some((self.bytes, now));
        }
    }

    /// Records that a block is complete. `asked` says when the next one was requested, if others
    /// follow.
    pub fn arrived(&mut self, bytes: u64, asked: Option<Duration>, now: Duration) {
        self.complete += bytes;
        self.heard(self.bytes.max(self.complete), now);
        (self.progress, self.progress_complete) = (now, now);
        // The first bytes may have come together with the last.
        let since = self.flow.since().unwrap_or(now);
        self.measured.0 += bytes;
        self.measured.1 += now.saturating_sub(since);
        self.is_settled |= self.measured.1 >= SETTLED_TIME;
        if self.measured.1 > LOOK_BACK {
            self.measured = (self.measured.0 / 2, self.measured.1 / 2);
        }
        self.flow = match asked.map(|asked| asked + self.round_trip()) {
            Some(first) if first > now => Flow::Later(now, first),
            Some(_) => Flow::Since(now),
            None => Flow::Idle,
        };
    }

    /// Records that bytes that were taken for a block are none: that they came was no progress.
    pub fn useless(&mut self, bytes: u64) {
        self.complete += bytes;
        self.bytes = self.bytes.max(self.complete);
        self.progress = self.progress_complete;
    }

    /// Records that bytes that have come are those of a complete message which is not measured
    /// here.
    pub fn other(&mut self, bytes: u64) {
        self.complete += bytes;
        self.bytes = self.bytes.max(self.complete);
    }

    /// Returns the bytes that have come of blocks that are not complete.
    pub fn partial(&self) -> u64 {
        self.bytes.saturating_sub(self.complete)
    }

    /// Returns the bytes a second that come, if that is known.
    pub fn speed(&self) -> Option<f64> {
        let flowing = self.flow.since().map_or(Duration::ZERO, |at| self.now.saturating_sub(at));
        let time = self.measured.1 + flowing;
        let bytes = self.measured.0 + self.partial();
        (time >= SPEED_TIME && bytes > 0).then(|| bytes as f64 / time.as_secs_f64())
    }

    /// Returns the bytes a second that may come soon: more than [`Line::speed`] while the speed
    /// rises, as in TCP's slow start.
    pub fn rising_speed(&self) -> Option<f64> {
        self.speed().map(|speed| speed.max(self.recent))
    }

    /// Returns the bytes a second, if they were measured for long enough to be remembered.
    pub fn settled_speed(&self) -> Option<u64> {
        self.speed().filter(|_| self.is_settled).map(|speed| speed as u64)
    }

    /// Returns the time from a request to the first byte.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(ROUND_TRIP_FIRST)
    }

    /// Returns when a byte came, or the peer was asked while it was idle.
    pub fn progress(&self) -> Duration {
        self.progress
    }

    /// Returns whether nothing has come for a while.
    pub fn is_quiet(&self, now: Duration) -> bool {
        now > self.progress + QUIET + self.round_trip() * QUIET_ROUND_TRIPS
    }

    /// Returns the same, or nothing before it was measured.
    pub fn measured_round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(Duration::ZERO)
    }
}

impl Flow {
    /// Returns since when bytes have come, or might have.
    fn since(self) -> Option<Duration> {
        match self {
            Self::Idle | Self::Asked(_) => None,
            Self::Since(since) | Self::Later(since, _) => Some(since),
        }
    }
}

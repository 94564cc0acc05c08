use std::collections::VecDeque;
use std::time::Duration;

use apus_hash::Hash;
use apus_net::{Outgoing, PROTOCOL_VERSION};
use apus_testchain::Rng;
use apus_wire::Header;
use apus_wire::message::{
    Command, HEADERS_MAX, Headers, InventoryKind, InventoryList, Message, Services, Version,
};

use super::chain;
use super::spec::{Behaviour, PeerSpec};

/// Bytes that TCP sends in the first round trip (RFC 6928).
const FIRST_WINDOW: f64 = 14_600.0;
/// Time without data after which TCP starts slowly again (RFC 5681, with a usual timeout).
const IDLE: Duration = Duration::from_secs(1);
/// Time that [`Behaviour::DripsHeaders`] takes for an answer.
const DRIP: Duration = Duration::from_millis(4_900);
/// The unix time of the world.
pub const UNIX_TIME: i64 = 1_700_000_000;

/// A simulated peer that is connected.
pub struct Peer {
    pub spec: PeerSpec,
    /// The height of the last block that it has.
    pub top: usize,
    /// Requested blocks by height, and when the first byte of each can be here.
    asked: VecDeque<(usize, Duration)>,
    /// Bytes that are here of the first of them.
    partial: f64,
    /// Bytes of blocks that are here, complete or not.
    bytes: f64,
    /// Bytes that TCP sends in a round trip.
    window: f64,
    /// The same, if the peer had sent all the time.
    window_possible: f64,
    /// Bytes that it could have sent until now.
    bytes_possible: f64,
    last_data: Duration,
    /// When the current or the next outage begins, and ends.
    outage: (Duration, Duration),
}

/// A peer's answer to a message.
pub enum Answer {
    /// Sends a message, which takes this long in addition to the round trip.
    Message(Outgoing, Duration),
    /// Nothing at once: blocks follow.
    None,
}

impl Peer {
    /// Creates a peer that is connected now, and has the blocks up to height `top`.
    pub fn new(spec: PeerSpec, top: usize, now: Duration, rng: &mut Rng) -> Self {
        let mut peer = Self {
            spec,
            top,
            asked: VecDeque::new(),
            partial: 0.0,
            bytes: 0.0,
            window: FIRST_WINDOW,
            window_possible: FIRST_WINDOW,
            bytes_possible: 0.0,
            last_data: now,
            outage: (Duration::MAX, Duration::MAX),
        };
        peer.plan_outage(now, rng);
        peer
    }

    fn plan_outage(&mut self, now: Duration, rng: &mut Rng) {
        if let Some(outages) = self.spec.outages {
            let begin = now + exponential(outages.every, rng);
            self.outage = (begin, begin + exponential(outages.lasts, rng));
        }
    }

    /// Returns the bytes of blocks that are here, complete or not.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns those of them that belong to a block that is not complete.
    pub fn partial(&self) -> u64 {
        self.partial as u64
    }

    pub fn answers(&mut self, message: &Outgoing, now: Duration) -> Vec<Answer> {
        let at_once = |message| vec![Answer::Message(message, Duration::ZERO)];
        match Message::decode(message.command, &message.payload) {
            // It has sent its own `version` already.
            Ok(Message::Version(_)) if self.spec.inbound => {
                at_once(Outgoing::empty(Command::VERACK))
            }
            Ok(Message::Version(_)) => {
                let rest = [Command::WTXIDRELAY, Command::VERACK].map(Outgoing::empty);
                let all = std::iter::once(version()).chain(rest);
                all.map(|message| Answer::Message(message, Duration::ZERO)).collect()
            }
            Ok(Message::Ping(Some(nonce))) => at_once(Outgoing::new(&nonce.pong())),
            Ok(Message::GetHeaders(request)) => {
                let locator: Vec<Hash> = request.locator.iter().collect();
                self.headers_after(&locator)
            }
            Ok(Message::GetData(list)) => {
                self.ask(&list, now);
                vec![Answer::None]
            }
            _ => Vec::new(),
        }
    }

    fn headers_after(&self, locator: &[Hash]) -> Vec<Answer> {
        let all = chain::headers();
        if self.spec.behaviour == Behaviour::DripsHeaders {
            let known = &all[..HEADERS_MAX];
            return vec![Answer::Message(Outgoing::new(&Headers(known)), DRIP)];
        }
        let known = locator.iter().find_map(chain::height_of).unwrap_or(0);
        let rest = &all[known.min(self.top)..self.top];
        let list = &rest[..rest.len().min(HEADERS_MAX)];
        vec![Answer::Message(Outgoing::new(&Headers(list)), Duration::ZERO)]
    }

    fn ask(&mut self, list: &InventoryList, now: Duration) {
        let ready = now + self.spec.round_trip;
        let blocks = list.iter().filter(|item| {
            matches!(item.kind, InventoryKind::BLOCK | InventoryKind::WITNESS_BLOCK)
        });
        let heights = blocks.filter_map(|item| chain::height_of(&item.hash));
        self.asked.extend(heights.map(|height| (height, ready)));
    }

    /// Returns the bytes a second that the peer could send if it had been asked all the time and
    /// our line were free.
    pub fn possible(&self, now: Duration) -> f64 {
        let most = match self.spec.behaviour {
            Behaviour::SilentAfter(bytes) => bytes as f64,
            _ => f64::INFINITY,
        };
        if self.bytes_possible >= most {
            return 0.0;
        }
        self.could_send(now).min(self.window_possible / self.round_trip())
    }

    fn round_trip(&self) -> f64 {
        self.spec.round_trip.as_secs_f64().max(1e-6)
    }

    /// Returns the bytes a second that the peer's line carries now.
    fn could_send(&self, now: Duration) -> f64 {
        let is_silent = match self.spec.behaviour {
            Behaviour::SilentAfter(bytes) => self.bytes >= bytes as f64,
            Behaviour::Junk => true,
            _ => false,
        };
        let is_out = now >= self.outage.0 && now < self.outage.1;
        if is_silent || is_out { 0.0 } else { self.spec.rate as f64 }
    }

    /// Returns the bytes that TCP sends in a round trip that begins now.
    fn window(&self, now: Duration) -> f64 {
        if now > self.last_data + IDLE { FIRST_WINDOW } else { self.window }
    }

    /// Returns the bytes a second that the peer would send if our line were free.
    pub fn wish(&self, now: Duration) -> f64 {
        if self.asked.front().is_none_or(|(_, ready)| *ready > now) {
            return 0.0;
        }
        self.could_send(now).min(self.window(now) / self.round_trip())
    }

    /// Returns the time after which [`Peer::wish`] changes, or a block is complete, at this rate.
    pub fn next_change(&self, now: Duration, rate: f64, size: impl Fn(usize) -> u64) -> Duration {
        let (begin, end) = self.outage;
        let mut next = if now < begin { begin } else { end };
        if let Some((height, ready)) = self.asked.front() {
            if *ready > now {
                next = next.min(*ready);
            } else if rate > 0.0 {
                let left = size(*height) as f64 - self.partial;
                next = next.min(now + Duration::from_secs_f64((left / rate).max(1e-6)));
                if rate < self.spec.rate as f64 {
                    // Slow start: the rate at most doubles in a round trip.
                    next = next.min(now + (self.spec.round_trip / 2).max(Duration::from_millis(5)));
                }
            }
        }
        next
    }

    /// Lets a time pass in which the peer could have sent blocks at this rate.
    pub fn could_flow(&mut self, time: Duration, rate: f64) {
        let bytes = rate * time.as_secs_f64();
        self.window_possible = (self.window_possible + bytes).min(self.full_window());
        self.bytes_possible += bytes;
    }

    /// Returns the bytes that the peer's line carries in a round trip.
    fn full_window(&self) -> f64 {
        (self.spec.rate as f64 * self.round_trip()).max(FIRST_WINDOW)
    }

    /// Lets data flow for a time. Returns the height of the block that is complete, if any.
    pub fn flow(
        &mut self,
        now: Duration,
        time: Duration,
        rate: f64,
        size: impl Fn(usize) -> u64,
        rng: &mut Rng,
    ) -> Option<usize> {
        let end = now + time;
        if end >= self.outage.1 {
            if self.outage.1 - self.outage.0 > IDLE {
                self.window_possible = FIRST_WINDOW;
            }
            self.plan_outage(end, rng);
        }
        if rate <= 0.0 {
            return None;
        }
        self.window = self.window(now);
        self.last_data = end;
        let bytes = rate * time.as_secs_f64();
        self.bytes += bytes;
        self.partial += bytes;
        self.window = (self.window + bytes).min(self.full_window());
        let (height, _) = *self.asked.front()?;
        // Rounding must not leave a byte behind.
        if self.partial + 0.5 < size(height) as f64 {
            return None;
        }
        self.partial = 0.0;
        self.asked.pop_front();
        Some(height)
    }

    /// Returns whether the peer closes the connection now.
    pub fn closes(&self) -> bool {
        matches!(self.spec.behaviour, Behaviour::ClosesAfter(bytes) if self.bytes >= bytes as f64)
    }
}

fn exponential(mean: Duration, rng: &mut Rng) -> Duration {
    let uniform = (rng.below(1 << 32) + 1) as f64 / (1u64 << 32) as f64;
    mean.mul_f64(-uniform.ln())
}

pub fn version() -> Outgoing {
    Outgoing::new(&Version {
        version: PROTOCOL_VERSION,
        services: Services::NETWORK.with(Services::WITNESS),
        time: UNIX_TIME,
        receiver: [0; 26],
        nonce: 1,
        user_agent: b"/world/",
        start_height: chain::headers().len() as i32,
        relay: true,
    })
}

/// Returns the first bytes of the block at `height`.
pub fn header(height: usize) -> &'static Header {
    &chain::headers()[height - 1]
}

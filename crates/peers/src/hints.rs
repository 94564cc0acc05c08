//! Hints files from and for peers: a node says which file it has by a feature (BIP434), and sends
//! it in chunks. The SHA-256 of the file is known beforehand, so that no peer is trusted; what it
//! sent is compared once the file is complete.

use std::io::{BufRead, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use apus_disk::{Disk, File, StoreError};
use apus_hash::{Sha256Pieces, hex};
use apus_net::{
    HINTS_FILE, OfferedFeature, Ourselves, Outgoing, PeerOptions, Reader, Session, Target,
    TransportError,
};
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_progress::clock::unix_time;
use apus_progress::{Phase, Progress, Watch};
use apus_wire::message::{
    GetHints, HINTS_CHUNK_BYTES, HintsChunk, Message, OfferedHints, Payload, Raw, Services,
};
use crossbeam_channel::bounded;

use super::connections::USER_AGENT;
use super::limiter::Limiter;
use super::link::{Dialing, Open, has_hung_up, open};
use super::random::random;

/// The longest time that a peer may take for a chunk, and for the handshake: with the four that are
/// asked for ahead, 17 kB/s are enough.
const CHUNK_TIME: Duration = Duration::from_secs(60);
/// The longest file that is taken, about 20 times that of mainnet.
const HINTS_BYTES_MAX: u64 = 1 << 32;
/// Chunks that are asked for before the first of them comes.
const AHEAD: u64 = 4;
/// Time between two looks at the clock, and at whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A hints file that is served.
pub struct ServedHints {
    file: File,
    /// What peers are told of it.
    pub offered: OfferedHints,
}

impl ServedHints {
    /// Opens the file that `offered` describes.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, offered: OfferedHints) -> Result<Self, StoreError> {
        Ok(Self { file: Disk::new().open_read(path)?, offered })
    }

    /// Returns the feature that peers are told of.
    pub(super) fn feature(&self) -> OfferedFeature {
        (HINTS_FILE, self.offered.to_bytes())
    }

    /// Returns the payload of the answer to a request; `None` if the file has no such chunk.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn answer(&self, request: &GetHints) -> Result<Option<Vec<u8>>, StoreError> {
        let chunk = u64::from(request.chunk);
        let len = self.offered.chunk_bytes(chunk);
        if request.sha256 != self.offered.sha256 || len == 0 {
            return Ok(None);
        }
        let mut payload = Vec::with_capacity(request.size() + len as usize);
        request.put(&mut payload);
        self.file.append_to(&mut payload, len as usize, chunk * HINTS_CHUNK_BYTES)?;
        Ok(Some(payload))
    }
}

/// Downloads the hints file with this SHA-256 to `path`, from the first of the peers that the user
/// names (`connect`, `addnode`) that has it; does nothing if it is there already. What an
/// interrupted download left is continued.
///
/// # Errors
/// No peer has the file, the disk fails, or `watch` asks to stop.
pub fn download_hints(
    options: &Options,
    sha256: &[u8; 32],
    path: &Path,
    watch: Watch,
) -> Result<(), SyncError> {
    let disk = Disk::new();
    if path.is_file() {
        return Ok(());
    }
    let Some(peers) = &options.peers else { return Err(no_peer(sha256, &[])) };
    if let Some(directory) = path.parent() {
        disk.create_dir_all(directory)?;
    }
    let (events, _heard) = bounded(1);
    let limiter = Arc::new(Limiter::new(peers.maxdownload.clone()));
    let dialing = Dialing::new(options.network.magic, peers, limiter, events);
    let part = path.with_extension("part");
    let mut why = Vec::new();
    let targets = || peers.connect.iter().chain(&peers.addnode);
    let mut was_wrong = false;
    // What one peer began, another may complete. If the file is then wrong, each peer is asked for
    // all of it.
    for starts_anew in [false, true] {
        if starts_anew && !was_wrong {
            break;
        }
        for target in targets() {
            if starts_anew {
                disk.remove(&part)?;
            }
            let download = Download { sha256, disk: &disk, part: &part, watch };
            match download.from(target, peers, &dialing) {
                Ok(()) if sha256_of(&disk, &part)? == *sha256 => {
                    disk.rename(&part, path)?;
                    return Ok(());
                }
                Ok(()) => {
                    was_wrong = true;
                    disk.remove(&part)?;
                    why.push(format!("{target}: it sent another file than it offers"));
                }
                Err(NotSent::Store(error)) => return Err(error.into()),
                Err(NotSent::Peer(reason)) => why.push(format!("{target}: {reason}")),
            }
            if watch.is_stopped() {
                return Err(SyncError::Stopped);
            }
        }
    }
    Err(no_peer(sha256, &why))
}

fn no_peer(sha256: &[u8; 32], why: &[String]) -> SyncError {
    let mut words = format!(
        "no peer sends the hints file with the SHA-256 {}: name one that does with --connect or \
         --addnode, or give a file with --hints",
        hex(sha256)
    );
    for reason in why {
        words.push_str("\n  ");
        words.push_str(reason);
    }
    SyncError::Input(words)
}

fn sha256_of(disk: &Disk, path: &Path) -> Result<[u8; 32], StoreError> {
    let file = disk.open_read(path)?;
    let len = file.len()?;
    let mut hasher = Sha256Pieces::default();
    let mut buffer = Vec::new();
    for start in (0..len).step_by(HINTS_CHUNK_BYTES as usize) {
        buffer.clear();
        file.append_to(&mut buffer, (len - start).min(HINTS_CHUNK_BYTES) as usize, start)?;
        hasher.update(&buffer);
    }
    Ok(hasher.finish())
}

/// Why a file is not complete.
enum NotSent {
    Store(StoreError),
    /// The peer is to blame, or there is no connection to it.
    Peer(String),
}

impl From<StoreError> for NotSent {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A download of a file that may have begun.
struct Download<'a> {
    sha256: &'a [u8; 32],
    disk: &'a Disk,
    /// The file that is being written.
    part: &'a Path,
    watch: Watch<'a>,
}

impl Download<'_> {
    /// Takes the chunks that are missing from one peer.
    fn from(&self, target: &Target, peers: &PeerOptions, dialing: &Dialing) -> Result<(), NotSent> {
        let connection = open(target, peers.v2transport, &peers.onlynet, dialing)
            .map_err(|why| NotSent::Peer(why.to_string()))?;
        let Open { socket, mut reader, mut writer, .. } = connection;
        let started = Instant::now();
        let is_over = AtomicBool::new(false);
        let is_late = AtomicBool::new(false);
        // A signal for each chunk, by which the other thread sees that the peer sends them.
        let (alive, heard) = bounded::<()>(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut last = Instant::now();
                while !is_over.load(Relaxed) {
                    if heard.recv_timeout(LOOK_EVERY).is_ok() {
                        last = Instant::now();
                    }
                    let takes_too_long = last.elapsed() > CHUNK_TIME;
                    is_late.fetch_or(takes_too_long, Relaxed);
                    if self.watch.is_stopped() || takes_too_long {
                        socket.close();
                    }
                }
            });
            let mut send = |message: Outgoing| -> Result<(), NotSent> {
                let mut bytes = Vec::new();
                writer.encode(&Raw(message.command, &message.payload), &mut bytes);
                let sent = (&mut &**socket).write_all(&bytes);
                sent.map_err(|error| NotSent::Peer(error.to_string()))
            };
            let taken = self.talk(&mut reader, &mut send, started, &|| {
                let _ = alive.try_send(());
            });
            is_over.store(true, Relaxed);
            socket.close();
            match taken {
                Err(NotSent::Peer(_)) if is_late.load(Relaxed) => {
                    Err(NotSent::Peer("it took more than a minute for 1 MB".to_string()))
                }
                taken => taken,
            }
        })
    }

    /// Talks to a peer until the file is complete. Calls `is_alive` after each chunk.
    fn talk<R: BufRead>(
        &self,
        reader: &mut Reader<R>,
        send: &mut dyn FnMut(Outgoing) -> Result<(), NotSent>,
        started: Instant,
        is_alive: &dyn Fn(),
    ) -> Result<(), NotSent> {
        let peer = |why: &dyn std::fmt::Display| NotSent::Peer(why.to_string());
        let ourselves = Ourselves {
            nonce: random(),
            user_agent: USER_AGENT,
            services: Services::default(),
            features: Vec::new(),
            time: unix_time(),
            start_height: 0,
        };
        let (mut session, first) =
            Session::new(false, ourselves, Services::default(), started.elapsed());
        first.map_or(Ok(()), &mut *send)?;
        let mut buffer = Vec::new();
        let mut wanted: Option<Wanted> = None;
        loop {
            let (command, payload) = match reader.read(&mut buffer) {
                Err(TransportError::Io(error)) if has_hung_up(&error) => {
                    return Err(peer(&"it hung up"));
                }
                read => read.map_err(|why| peer(&why))?,
            };
            let message = Message::decode(command, &buffer[payload]).map_err(|why| peer(&why))?;
            if let (Message::HintsChunk(chunk), Some(wanted)) = (&message, &mut wanted) {
                wanted.take(chunk)?;
                is_alive();
                self.report(wanted);
            }
            let mut out = Vec::new();
            session.handle(&message, started.elapsed(), &mut out).map_err(|why| peer(&why))?;
            if session.is_ready() && wanted.is_none() {
                let data = session.them().and_then(|them| them.feature(HINTS_FILE));
                let offered = data.and_then(OfferedHints::parse);
                let is_it = |offered: &OfferedHints| {
                    offered.sha256 == *self.sha256 && offered.size <= HINTS_BYTES_MAX
                };
                let offered = offered.filter(is_it);
                let offered = offered.ok_or_else(|| peer(&"it does not offer this file"))?;
                wanted = Some(self.begin(offered)?);
            }
            if let Some(wanted) = &mut wanted {
                out.extend(wanted.requests());
                if wanted.is_complete() {
                    return Ok(wanted.file.sync()?);
                }
            }
            for message in out {
                send(message)?;
            }
        }
    }

    /// Opens the file, whose whole chunks are kept.
    fn begin(&self, offered: OfferedHints) -> Result<Wanted, StoreError> {
        let has_begun = self.part.is_file();
        let file = if has_begun { self.disk.open(self.part) } else { self.disk.create(self.part) }?;
        let chunks = file.len()?.min(offered.size) / HINTS_CHUNK_BYTES;
        file.set_len(chunks * HINTS_CHUNK_BYTES)?;
        Ok(Wanted { file, offered, next: chunks, asked: chunks })
    }

    fn report(&self, wanted: &Wanted) {
        let all = wanted.offered.chunks();
        self.watch.observer.observe(&Progress {
            height: wanted.offered.height,
            bytes: wanted.next * HINTS_CHUNK_BYTES,
            fraction: wanted.next as f64 / all.max(1) as f64,
            ..Progress::of(Phase::DownloadingHints)
        });
    }
}

/// The chunks that are missing.
struct Wanted {
    file: File,
    offered: OfferedHints,
    /// The next chunk to write.
    next: u64,
    /// The next chunk to ask for.
    asked: u64,
}

impl Wanted {
    fn is_complete(&self) -> bool {
        self.next == self.offered.chunks()
    }

    /// Returns the requests that are due.
    fn requests(&mut self) -> Vec<Outgoing> {
        let upto = self.offered.chunks().min(self.next + AHEAD);
        let due = self.asked..upto.max(self.asked);
        self.asked = due.end;
        let sha256 = self.offered.sha256;
        due.map(|chunk| Outgoing::new(&GetHints { sha256, chunk: chunk as u32 })).collect()
    }

    /// Writes a chunk, which must be the next one.
    fn take(&mut self, chunk: &HintsChunk) -> Result<(), NotSent> {
        let wanted = GetHints { sha256: self.offered.sha256, chunk: self.next as u32 };
        let len = self.offered.chunk_bytes(self.next);
        if self.next >= self.asked || chunk.of != wanted || chunk.bytes.len() as u64 != len {
            return Err(NotSent::Peer("it sent a chunk that was not asked for".to_string()));
        }
        self.file.write_all_at(chunk.bytes, self.next * HINTS_CHUNK_BYTES)?;
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use apus_hash::{Hash, sha256};
    use apus_net::{Transport, initiate};
    use apus_wire::{Chain, Network};

    use super::*;

    /// What a peer does with the chunk that it is asked for.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Habit {
        Honest,
        /// It hangs up after this chunk.
        EndsAfter(u32),
        /// It changes a byte of this chunk.
        Changes(u32),
        /// It sends the chunk after the one that it is asked for.
        Skips,
        /// It sends each chunk without its last byte.
        Cuts,
        /// It offers no file.
        HasNone,
    }

    /// Starts a peer that serves the file at `path` to everybody, in threads that end with the
    /// test.
    fn peer(path: &Path, offered: OfferedHints, habit: Habit) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let path = path.to_path_buf();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let hints = ServedHints::open(&path, offered).unwrap();
                // The other side may hang up at any time.
                let _ = serve(&stream.unwrap(), &hints, habit);
            }
        });
        address
    }

    fn serve(stream: &TcpStream, hints: &ServedHints, habit: Habit) -> std::io::Result<()> {
        let from = std::io::BufReader::new(stream);
        let magic = Network::new(Chain::Regtest).magic;
        let (mut reader, mut writer) =
            initiate(Transport::V1, magic, from, &mut &*stream).expect("v1 needs no handshake");
        let features = if habit == Habit::HasNone { Vec::new() } else { vec![hints.feature()] };
        let ourselves = Ourselves {
            nonce: 1,
            user_agent: "/peer/",
            services: Services::default(),
            features,
            time: 0,
            start_height: 0,
        };
        let (mut session, _) = Session::new(true, ourselves, Services::default(), Duration::ZERO);
        let mut buffer = Vec::new();
        loop {
            let Ok((command, payload)) = reader.read(&mut buffer) else { return Ok(()) };
            let message = Message::decode(command, &buffer[payload]).unwrap();
            let mut out = Vec::new();
            session.handle(&message, Duration::ZERO, &mut out).unwrap();
            if let Message::GetHints(mut request) = message {
                if let Habit::EndsAfter(last) = habit
                    && request.chunk > last
                {
                    return Ok(());
                }
                request.chunk += u32::from(habit == Habit::Skips);
                let Some(mut payload) = hints.answer(&request).unwrap() else { return Ok(()) };
                if habit == Habit::Changes(request.chunk) {
                    payload[100] ^= 1;
                }
                if habit == Habit::Cuts {
                    payload.pop();
                }
                out.push(Outgoing { command: apus_wire::message::Command::HINTS, payload });
            }
            for Outgoing { command, payload } in out {
                let mut bytes = Vec::new();
                writer.encode(&Raw(command, &payload), &mut bytes);
                (&mut &*stream).write_all(&bytes)?;
            }
        }
    }

    /// Downloads a file of several chunks from these peers. Returns whether it came, and the error.
    fn download(habits: &[Habit]) -> Result<(), String> {
        let place = tempfile::tempdir().unwrap();
        let file: Vec<u8> =
            (0..3_400_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let served = place.path().join("served");
        std::fs::write(&served, &file).unwrap();
        let sha256 = sha256(&file);
        let size = file.len() as u64;
        let offered = OfferedHints { height: 7, block: Hash::ZERO, sha256, size };
        let mut options = Options::new(place.path().join("data"), Network::new(Chain::Regtest));
        let mut peers = PeerOptions::new(0);
        peers.v2transport = false;
        for habit in habits {
            let address = peer(&served, offered, *habit).to_string();
            peers.connect.push(Target::parse(&address, 0).unwrap());
        }
        options.peers = Some(peers);
        let path = place.path().join("data/hints/wanted.hints");
        let result = download_hints(&options, &sha256, &path, Watch::default());
        let has_come = std::fs::read(&path).is_ok_and(|bytes| bytes == file);
        assert_eq!(has_come, result.is_ok());
        result.map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_comes_from_the_peers_that_have_it() {
        use Habit::{Changes, Cuts, EndsAfter, HasNone, Honest, Skips};
        for habits in [
            &[Honest][..],
            &[EndsAfter(1), Honest],
            &[HasNone, Skips, Cuts, Honest],
            &[Changes(2), Honest],
            // The second peer completes what the first began, and spoils it.
            &[EndsAfter(0), Changes(3), EndsAfter(2), Honest],
            &[EndsAfter(0), Changes(3), Honest],
        ] {
            download(habits).unwrap();
        }
    }

    #[test]
    fn what_peers_do_wrong_is_said() {
        for (habit, why) in [
            (Habit::HasNone, "it does not offer this file"),
            (Habit::Skips, "a chunk that was not asked for"),
            (Habit::Cuts, "a chunk that was not asked for"),
            (Habit::Changes(0), "it sent another file than it offers"),
            (Habit::EndsAfter(1), "it hung up"),
        ] {
            let error = download(&[habit]).unwrap_err();
            assert!(error.contains(why), "{error}");
            assert!(error.contains("--addnode"), "{error}");
        }
    }

    #[test]
    fn an_offer_is_read_as_it_is_written() {
        let offered =
            OfferedHints { height: 9, block: Hash([3; 32]), sha256: [4; 32], size: 2_000_001 };
        assert_eq!(OfferedHints::parse(&offered.to_bytes()), Some(offered));
        assert_eq!(OfferedHints::parse(&offered.to_bytes()[1..]), None);
        assert_eq!((offered.chunks(), offered.chunk_bytes(2), offered.chunk_bytes(3)), (3, 1, 0));
    }
}

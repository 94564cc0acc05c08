//! Serves headers and blocks to peers that connect to us.
//!
//! One thread accepts connections; each connection has one thread, which reads a request and writes
//! the answer before it reads the next. So nothing is queued, and a peer that does not read costs
//! the memory of one block at most, until the time limit for writing ends its connection. All
//! connections share the memory for blocks: beyond it, a block is sent in small pieces.

mod peer;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use apus_host::resources::allow_open_files;
use apus_host::threads;
use apus_net::{PeerId, select_to_evict};
use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_node::view::View;
use apus_progress::{Phase, Progress, Upload, Watch};

use self::peer::{Common, Inbound};
use crate::budget::{Budget, MESSAGES_BYTES_MAX, Socket};
use crate::hints::ServedHints;
use crate::keyed_groups::KeyedGroups;
use crate::lan::Announcement;
use crate::stock::{Stock, filters_of};

/// Time from one look for new connections to the next.
const ACCEPT_EVERY: Duration = Duration::from_millis(10);
/// The most connections of one listener that are accepted before anything else is looked at.
const ACCEPT_MAX: usize = 64;
/// Time from one look for peers that take too long to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Open files besides connections: block files, tables, logs, listeners.
const OTHER_FILES: u64 = 150;

/// How blocks are served. Each option has Core's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServeOptions {
    /// The addresses to listen on; empty for all addresses of this machine.
    pub bind: Vec<SocketAddr>,
    /// The port if `bind` is empty.
    pub port: u16,
    /// The maximum number of connections.
    pub maxconnections: usize,
    /// The most bytes to send in 24 hours; `None` for no limit.
    pub maxuploadtarget: Option<u64>,
    /// Whether the encrypted transport (BIP324) is spoken, too.
    pub v2transport: bool,
    /// Whether to announce this node on the local network; not an option of Core.
    pub lan: bool,
    /// A hints file to serve, too; not an option of Core.
    pub hints: Option<PathBuf>,
}

/// Counts of the served data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServeReport {
    /// Number of connections that were accepted.
    pub connections: u64,
    /// Number of blocks that were sent.
    pub blocks: u64,
    /// Number of bytes of all messages that were sent.
    pub bytes: u64,
}

/// Serves the directory of `options`, which `view` shows, and a hints file, until `watch` asks to
/// stop.
///
/// # Errors
/// An address cannot be listened on.
pub fn serve(
    of: &Options,
    (view, hints): (Arc<View>, Option<ServedHints>),
    options: &ServeOptions,
    watch: Watch,
) -> Result<ServeReport, SyncError> {
    let listeners = listen(options)?;
    let common = Common {
        stock: Stock::new(view, filters_of(of), options.maxuploadtarget).with_hints(hints),
        budget: Arc::new(Budget::new(MESSAGES_BYTES_MAX)),
        magic: of.network.magic,
        v2: options.v2transport,
    };
    let places = places(options, watch);
    let table = Arc::new(Table::new(common, places));
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            tracing::debug!(target: "net", "serving blocks on {address}");
            watch.observer.note(&format!("Serving blocks on {address}"));
        }
    }
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let mut announcement = options.lan.then(|| Announcement::new(addresses));
    let announce = |lan: &mut Announcement| table.common.stock.served.look(|it| lan.set_tip(&it));
    if let Some(words) = announcement.as_mut().and_then(announce) {
        watch.observer.note(&words);
    }
    let mut upload = Upload::default();
    let mut looked = Duration::ZERO;
    while !watch.is_stopped() {
        let mut accepted = false;
        for listener in &listeners {
            let connections = std::iter::from_fn(|| listener.accept().ok());
            for connection in connections.take(ACCEPT_MAX) {
                accepted = true;
                table.accept(connection);
            }
        }
        let now = table.common.stock.now();
        if now >= looked + LOOK_EVERY {
            let bytes = table.common.stock.bytes() - upload.bytes;
            upload = table.upload();
            upload.bytes_per_second = (bytes as f64 / (now - looked).as_secs_f64()) as u64;
            looked = now;
            table.peers().values().for_each(|peer| peer.check_time(now));
            if watch.observer.wants_peers() {
                let infos = table.peers().values().filter_map(|peer| peer.info()).collect();
                watch.observer.peers(infos);
            }
            if let Some(lan) = &mut announcement {
                lan.tend(Instant::now());
            }
        }
        watch.observer.observe(&table.progress(upload));
        if !accepted {
            std::thread::sleep(ACCEPT_EVERY);
        }
    }
    table.close();
    let stock = &table.common.stock;
    let connections = table.accepted.load(Relaxed);
    Ok(ServeReport { connections, blocks: stock.blocks(), bytes: stock.bytes() })
}

/// Returns the number of connections that the options and the system allow.
fn places(options: &ServeOptions, watch: Watch) -> usize {
    let wanted = options.maxconnections;
    let files = allow_open_files((wanted as u64).saturating_add(OTHER_FILES));
    let allowed = files.saturating_sub(OTHER_FILES) as usize;
    if allowed < wanted {
        watch.observer.note(&format!(
            "Warning: only {allowed} of {wanted} connections of peers are possible: the system \
             allows {files} open files, of which {OTHER_FILES} are kept for other work; allow more \
             (ulimit -n 4096, or LimitNOFILE= of a service)"
        ));
    }
    wanted.min(allowed)
}

/// Opens the listening sockets.
fn listen(options: &ServeOptions) -> Result<Vec<TcpListener>, SyncError> {
    let any = |ip: IpAddr| vec![SocketAddr::new(ip, options.port)];
    let open = |addresses: &[SocketAddr]| -> Result<Vec<TcpListener>, SyncError> {
        let open = |address: &SocketAddr| {
            let open = || -> io::Result<TcpListener> {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            };
            open().map_err(|error| {
                SyncError::Input(format!(
                    "cannot listen on {address}: {error}; choose another address or port with \
                     --bind or --port"
                ))
            })
        };
        addresses.iter().map(open).collect()
    };
    if options.bind.is_empty() {
        open(&any(Ipv6Addr::UNSPECIFIED.into()))
            .or_else(|_| open(&any(Ipv4Addr::UNSPECIFIED.into())))
    } else {
        open(&options.bind)
    }
}

/// All connections.
struct Table {
    common: Common,
    /// The most connections.
    places: usize,
    groups: KeyedGroups,
    peers: Mutex<BTreeMap<PeerId, Arc<Inbound>>>,
    /// Signals that a connection has ended.
    left: Condvar,
    accepted: AtomicU64,
}

/// A connection's place in the table, until it is dropped.
struct ConnectionSlot {
    table: Arc<Table>,
    peer: Arc<Inbound>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.peer.close();
        self.table.peers().remove(&self.peer.id);
        self.table.left.notify_all();
    }
}

impl Table {
    fn new(common: Common, places: usize) -> Self {
        Self {
            common,
            places,
            groups: KeyedGroups::default(),
            peers: Mutex::default(),
            left: Condvar::new(),
            accepted: AtomicU64::new(0),
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<PeerId, Arc<Inbound>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread of a new connection; if all places are taken, another makes room, or the
    /// new one is closed.
    fn accept(self: &Arc<Self>, (stream, address): (TcpStream, SocketAddr)) {
        if stream.set_nonblocking(false).is_err() || !self.make_room() {
            return;
        }
        let id = PeerId(self.accepted.fetch_add(1, Relaxed));
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let group = self.groups.of(address.ip());
        let now = self.common.stock.now();
        let socket = Socket::inbound(stream, &self.common.budget);
        let peer = Arc::new(Inbound::new(id, (socket, address), group, now));
        self.peers().insert(id, Arc::clone(&peer));
        let place = ConnectionSlot { table: Arc::clone(self), peer };
        threads::spawn_free(format!("apus-serve-{}", id.0), move || {
            let ConnectionSlot { table, peer } = &place;
            tracing::debug!(target: "net", peer = %peer.address, "connected");
            let Err(why) = peer.talk(&table.common);
            tracing::debug!(target: "net", peer = %peer.address, %why, "disconnected");
        });
    }

    /// Returns whether there is room for another connection, if need be by closing one.
    fn make_room(&self) -> bool {
        let mut peers = self.peers();
        if peers.len() < self.places {
            return true;
        }
        let candidates = peers.values().map(|peer| peer.candidate()).collect();
        match select_to_evict(candidates).and_then(|id| peers.remove(&id)) {
            Some(evicted) => {
                tracing::debug!(target: "net", peer = %evicted.address, "it makes room");
                evicted.close();
                true
            }
            None => false,
        }
    }

    fn upload(&self) -> Upload {
        let peers = self.peers().len();
        let stock = &self.common.stock;
        Upload { peers, blocks: stock.blocks(), bytes: stock.bytes(), bytes_per_second: 0 }
    }

    fn progress(&self, upload: Upload) -> Progress {
        let (height, time) = self.common.stock.served.look(|chain| {
            let tip = chain.tree.node(chain.tip());
            (tip.height, tip.time)
        });
        Progress { height, time, upload: Some(upload), ..Progress::of(Phase::Serving) }
    }

    /// Closes all connections, and waits for their threads.
    fn close(&self) {
        self.common.budget.end();
        let mut peers = self.peers();
        while !peers.is_empty() {
            peers.values().for_each(|peer| peer.close());
            peers = self.left.wait(peers).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

//! Finds nodes on the local network, and announces this one there, with multicast DNS (RFC 6762)
//! and service discovery (RFC 6763).
//!
//! Anyone on the local network can answer. An answer only adds a peer, whose blocks are verified
//! like those of every other, and only an address that is not on the internet is connected to.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use apus_host::threads;
use apus_net::{ServedChain, Target, is_bad_port};
use apus_node::options::Options;
use apus_wire::Network;
use apus_wire::message::Host;
use if_addrs::{IfAddr, Interface};
use mdns_sd::{IfKind, RecvTimeoutError, ServiceEvent, ServiceInfo};

use super::mdns::Daemon;
use super::random::random;

/// The type of service: the port at which Bitcoin's peers connect, as others use this name, too.
const SERVICE: &str = "_bitcoin._tcp.local.";
/// The key of the text record whose value is the network, by Core's name (`-chain`).
const NETWORK: &str = "network";
/// The key of the text record whose value is the height of the tip.
const HEIGHT: &str = "height";
/// How long nodes are looked for. They answer within a tenth of this, unless a message is lost: the
/// question is asked again after a second.
const TIME: Duration = Duration::from_secs(2);
/// The most nodes that are used.
const NODES_MAX: usize = 4;
/// How long the program waits, at its end, for the message that withdraws an announcement.
const GOODBYE: Duration = Duration::from_secs(1);
/// Time from one check of what others have made the daemon remember to the next.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Time for which the node is not announced after others have made the daemon remember too much.
const PAUSE: Duration = Duration::from_secs(60);

/// A node on the local network, by what it says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LanNode {
    /// Where it listens.
    pub address: SocketAddr,
    /// The height of its tip.
    pub height: Option<u32>,
}

impl LanNode {
    /// Returns where to connect to.
    pub(super) fn target(&self) -> Target {
        Target::from((Host::from(self.address.ip()), self.address.port()))
    }

    /// Tells the user that the node was found.
    pub(super) fn words(&self) -> String {
        let height = self.height.map(|height| format!(" (height {height})")).unwrap_or_default();
        format!(
            "Found node {}{height} on the local network; its blocks are verified like all others \
             (--lan=0 does not look for any)",
            self.address
        )
    }
}

/// A search for nodes on the local network, in a thread of its own.
pub struct LanSearch(Arc<Search>);

#[derive(Default)]
struct Search {
    found: Mutex<Found>,
    changed: Condvar,
}

#[derive(Default)]
struct Found {
    /// Nodes that were not taken.
    nodes: Vec<LanNode>,
    is_over: bool,
}

impl LanSearch {
    /// Starts to look for nodes of the network, for two seconds, if the options ask for it. If that
    /// is not possible, none is found.
    pub fn begin(options: &Options) -> Option<Self> {
        options.peers.as_ref().filter(|peers| peers.lan)?;
        let search = Arc::new(Search::default());
        let network = options.network.chain.name();
        let ending = EndOnDrop(Arc::clone(&search));
        threads::spawn_free("apus-lan".to_string(), move || {
            let EndOnDrop(search) = &ending;
            if let Err(why) = look(network, |node| search.update(|found| found.nodes.push(node))) {
                tracing::debug!(target: "net", %why, "no search for nodes on the local network");
            }
        });
        Some(Self(search))
    }

    /// Waits until a node is found or the search is over, and returns whether there is a node that
    /// was not taken.
    pub(super) fn finds_any(&self) -> bool {
        let mut found = self.0.lock();
        while found.nodes.is_empty() && !found.is_over {
            found = self.0.changed.wait(found).unwrap_or_else(PoisonError::into_inner);
        }
        !found.nodes.is_empty()
    }

    /// Waits until the search is over, and returns the nodes that it has found.
    pub fn all(self) -> Vec<LanNode> {
        let mut found = self.0.lock();
        while !found.is_over {
            found = self.0.changed.wait(found).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut found.nodes)
    }

    /// Returns the nodes that were found since the last call.
    pub(super) fn take(&self) -> Vec<LanNode> {
        std::mem::take(&mut self.0.lock().nodes)
    }
}

impl Search {
    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Found)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// Ends the search when it is dropped, even if its thread cannot be started.
struct EndOnDrop(Arc<Search>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.update(|found| found.is_over = true);
    }
}

/// Calls `found` for each node of the network that answers within [`TIME`], at most [`NODES_MAX`].
fn look(network: &str, mut found: impl FnMut(LanNode)) -> Result<(), mdns_sd::Error> {
    let mut interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.retain(is_usable);
    if interfaces.is_empty() {
        tracing::debug!(target: "net", "no local network to look for nodes on");
        return Ok(());
    }
    let mut daemon = Daemon::start(is_usable)?;
    let events = daemon.service.browse(SERVICE)?;
    let until = Instant::now() + TIME;
    let mut names = BTreeSet::new();
    while names.len() < NODES_MAX && !daemon.is_too_full() {
        let event = match events.recv_deadline(until.min(Instant::now() + CHECK_EVERY)) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => continue,
            Err(_) => break,
        };
        let ServiceEvent::ServiceResolved(service) = event else { continue };
        let answer = Answer {
            network: service.get_property_val_str(NETWORK),
            height: service.get_property_val_str(HEIGHT),
            port: service.port,
            addresses: service.addresses.iter().map(|address| address.to_ip_addr()).collect(),
        };
        let is_here = |ip| interfaces.iter().any(|interface| reaches(&interface.addr, ip));
        if let Some(node) = answer.node(network, is_here)
            && service.fullname.split('.').next() != Some(our_name())
            && names.insert(service.fullname)
        {
            found(node);
        }
    }
    Ok(())
}

/// Returns whether an interface leads to a local network and no other, such as a VPN.
fn is_usable(interface: &Interface) -> bool {
    interface.is_oper_up()
        && !interface.is_p2p()
        && !interface.is_loopback()
        && (is_local(interface.ip()) || is_link_local_v6(interface.ip()))
}

/// Returns whether an address is in the subnet of an interface, so that no router is on the way.
fn reaches(interface: &IfAddr, ip: IpAddr) -> bool {
    let in_subnet = |ours: &[u8], mask: &[u8], theirs: &[u8]| {
        let bytes = ours.iter().zip(theirs).zip(mask);
        bytes.into_iter().all(|((ours, theirs), mask)| ours & mask == theirs & mask)
    };
    match (interface, ip) {
        (IfAddr::V4(at), IpAddr::V4(ip)) => {
            in_subnet(&at.ip.octets(), &at.netmask.octets(), &ip.octets())
        }
        (IfAddr::V6(at), IpAddr::V6(ip)) => {
            in_subnet(&at.ip.octets(), &at.netmask.octets(), &ip.octets())
        }
        _ => false,
    }
}

/// Returns whether an address is of a local network, so that a connection to it does not leave it:
/// private (RFC 1918), link-local (RFC 3927), or a unique local one of IPv6 (RFC 4193).
fn is_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.octets()[0] == 0xfd,
    }
}

/// Returns whether an address is link-local, fe80::/10. Multicast works with these, but to connect
/// to one takes the name of an interface as well.
fn is_link_local_v6(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Returns the name that this process is announced with, by which it also knows its own answers. It
/// is random, so that it does not tell the name of the machine.
fn our_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("apus-{:016x}", random()))
}

/// Announces this node on the local network until it is dropped.
pub(super) struct Announcement {
    /// The addresses that the node listens on.
    listening: Vec<SocketAddr>,
    /// The height that was announced last.
    height: Option<u32>,
    /// The announced service.
    service: Option<ServiceInfo>,
    daemon: Option<Daemon>,
    /// When the node is announced again, if it is not for a while.
    again: Option<Instant>,
}

impl Announcement {
    /// Prepares to announce a node that listens on these addresses.
    pub fn new(listening: Vec<SocketAddr>) -> Self {
        Self { listening, height: None, service: None, daemon: None, again: None }
    }

    /// Announces the node, which serves this chain. Returns what to tell the user: the first time,
    /// whether it worked.
    pub fn set_tip(&mut self, chain: &ServedChain<'_>) -> Option<String> {
        let height = chain.tree.node(chain.tip()).height;
        let before = self.height.replace(height);
        let is_off = self.daemon.is_none() && self.again.is_none();
        if before == Some(height) || before.is_some() && is_off {
            return None;
        }
        let words = match self.announce(chain.tree.network(), height) {
            Ok(()) => {
                "Announced on the local network, where `apus sync` finds this node".to_string()
            }
            Err(why) => format!("Not announced on the local network: {why}"),
        };
        before.is_none().then_some(words)
    }

    fn announce(&mut self, network: &Network, height: u32) -> Result<(), String> {
        self.service = Some(self.service(network, height)?);
        match self.again {
            Some(_) => Ok(()),
            None => self.register().map_err(|why| why.to_string()),
        }
    }

    fn register(&mut self) -> Result<(), mdns_sd::Error> {
        let Some(service) = self.service.clone() else { return Ok(()) };
        let daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => Daemon::start(is_usable)?,
        };
        self.daemon.insert(daemon).service.register(service)
    }

    /// Ends the announcement for [`PAUSE`] if others have made the daemon remember too much, which
    /// it then forgets. It must be called about every second.
    pub fn tend(&mut self, now: Instant) {
        if self.daemon.as_mut().is_some_and(Daemon::is_too_full) {
            tracing::debug!(target: "net", "another host floods multicast DNS: not announced now");
            (self.daemon, self.again) = (None, Some(now + PAUSE));
        }
        if self.again.take_if(|again| now >= *again).is_some()
            && let Err(why) = self.register()
        {
            tracing::debug!(target: "net", %why, "not announced on the local network any more");
        }
    }

    fn service(&self, network: &Network, height: u32) -> Result<ServiceInfo, String> {
        let (port, ips) = announced(&self.listening)
            .ok_or("no address that is listened on is one of a local network")?;
        let host = format!("{}.local.", our_name());
        let text = [(NETWORK, network.chain.name().to_string()), (HEIGHT, height.to_string())];
        let service = ServiceInfo::new(SERVICE, our_name(), &host, &ips[..], port, &text[..]);
        let mut service = service.map_err(|why| why.to_string())?;
        if ips.is_empty() {
            service = service.enable_addr_auto();
            if self.listening.iter().all(SocketAddr::is_ipv4) {
                service.set_interfaces(vec![IfKind::IPv4]);
            }
        }
        // The name is random, so no other node has it.
        service.set_requires_probe(false);
        Ok(service)
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some(Ok(told)) = self.daemon.as_ref().map(|daemon| daemon.service.shutdown()) {
            let _ = told.recv_timeout(GOODBYE);
        }
    }
}

/// Returns the port to announce, and the addresses with it, none for all that this machine has;
/// `None` if the local network cannot reach any.
fn announced(listening: &[SocketAddr]) -> Option<(u16, Vec<IpAddr>)> {
    let reaches = |address: &&SocketAddr| address.ip().is_unspecified() || is_local(address.ip());
    let port = listening.iter().find(reaches)?.port();
    let with_port = listening.iter().filter(reaches).filter(|address| address.port() == port);
    let ips: Vec<IpAddr> = with_port.map(SocketAddr::ip).collect();
    if ips.iter().any(IpAddr::is_unspecified) {
        Some((port, Vec::new()))
    } else {
        Some((port, ips))
    }
}

/// An instance of the service in its own words, which are not to be trusted.
struct Answer<'a> {
    network: Option<&'a str>,
    height: Option<&'a str>,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl Answer<'_> {
    /// Returns the node if it is one of `network`, at an address of a local network that `is_here`:
    /// of IPv4 if it has several. Its port must not be that of another service.
    fn node(&self, network: &str, is_here: impl Fn(IpAddr) -> bool) -> Option<LanNode> {
        let addresses = self.addresses.iter().map(IpAddr::to_canonical);
        let ip = addresses.filter(|ip| is_local(*ip) && is_here(*ip)).min()?;
        let is_bad = self.port == 0 || is_bad_port(&(Host::from(ip), self.port));
        let height = self.height.and_then(|text| text.parse().ok());
        (self.network == Some(network) && !is_bad)
            .then_some(LanNode { address: SocketAddr::new(ip, self.port), height })
    }
}

#[cfg(test)]
impl LanSearch {
    /// Returns a search that is over and has found nodes at these addresses.
    pub(super) fn over(addresses: &[&str]) -> Self {
        let node = |text: &&str| LanNode { address: text.parse().unwrap(), height: Some(880_123) };
        let found = Found { nodes: addresses.iter().map(node).collect(), is_over: true };
        Self(Arc::new(Search { found: Mutex::new(found), changed: Condvar::new() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(network: Option<&str>, height: Option<&str>, address: &[&str]) -> Option<LanNode> {
        let addresses = address.iter().map(|text| text.parse().unwrap()).collect();
        Answer { network, height, port: 8333, addresses }.node("main", |_| true)
    }

    #[test]
    fn only_nodes_of_the_same_network_are_used() {
        let home = ["192.168.1.20"];
        assert!(node(Some("main"), None, &home).is_some());
        for other in [None, Some(""), Some("test"), Some("Main"), Some("main\0"), Some("regtest")] {
            assert_eq!(node(other, None, &home), None, "{other:?}");
        }
        let addresses = vec![home[0].parse().unwrap()];
        let mut answer = Answer { network: Some("main"), height: None, port: 0, addresses };
        for port in [0, 22, 25, 5432] {
            answer.port = port;
            assert_eq!(answer.node("main", |_| true), None, "the port of another service");
        }
    }

    #[test]
    fn no_address_beyond_a_router_is_used() {
        let interface = |ip: &str, netmask: &str| {
            let ip = ip.parse().unwrap();
            let netmask = netmask.parse().unwrap();
            IfAddr::V4(if_addrs::Ifv4Addr { ip, netmask, prefixlen: 0, broadcast: None })
        };
        let home = interface("192.168.1.7", "255.255.255.0");
        let wide = interface("10.3.0.9", "255.254.0.0");
        let reach = |at: &IfAddr, ip: &str| reaches(at, ip.parse().unwrap());
        assert!(reach(&home, "192.168.1.20") && !reach(&home, "192.168.2.20"));
        assert!(!reach(&home, "10.0.0.1") && !reach(&home, "169.254.169.254"));
        assert!(
            reach(&wide, "10.2.255.1") && !reach(&wide, "10.4.0.1") && !reach(&wide, "fd00::1")
        );
    }

    #[test]
    fn no_address_on_the_internet_is_used() {
        let used = |addresses: &[&str]| {
            node(Some("main"), None, addresses).map(|node| node.address.to_string())
        };
        for local in ["10.1.2.3", "172.31.0.1", "192.168.1.20", "169.254.7.7"] {
            assert_eq!(used(&[local]), Some(format!("{local}:8333")));
            assert_eq!(used(&["8.8.8.8", local, "fd00::1"]), Some(format!("{local}:8333")));
        }
        assert_eq!(used(&["fd12::1"]), Some("[fd12::1]:8333".to_string()));
        assert_eq!(used(&["::ffff:10.0.0.1"]), Some("10.0.0.1:8333".to_string()));
        for other in [
            "8.8.8.8",
            "172.32.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "0.0.0.0",
            "224.0.0.251",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:8.8.8.8",
            "2001:db8::1",
            "fc00::1",
            "fe80::1",
            "ff02::fb",
        ] {
            assert_eq!(used(&[other]), None, "{other}");
        }
        assert_eq!(used(&[]), None);
    }

    #[test]
    fn words_hold_nothing_that_a_node_wrote() {
        let words = |height| node(Some("main"), height, &["192.168.1.20"]).unwrap().words();
        let known = words(Some("880123"));
        assert!(known.starts_with("Found node 192.168.1.20:8333 (height 880123) on"), "{known}");
        for wrong in [None, Some(""), Some("\u{1b}[2J"), Some("-1"), Some("4294967296")] {
            let unknown = words(wrong);
            assert!(unknown.starts_with("Found node 192.168.1.20:8333 on the"), "{unknown:?}");
        }
    }

    #[test]
    fn only_what_the_local_network_reaches_is_announced() {
        let found = |addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
            announced(&addresses).map(|(port, ips)| format!("{port} {ips:?}"))
        };
        assert_eq!(found(&["[::]:8333"]), Some("8333 []".to_string()));
        assert_eq!(found(&["0.0.0.0:7", "10.0.0.1:7"]), Some("7 []".to_string()));
        let some = ["127.0.0.1:1", "8.8.8.8:2", "10.0.0.1:3", "10.0.0.2:4", "[fd00::1]:3"];
        assert_eq!(found(&some), Some("3 [10.0.0.1, fd00::1]".to_string()));
        for none in [&[][..], &["127.0.0.1:8333"], &["8.8.8.8:8333", "[::1]:8333"]] {
            assert_eq!(found(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_search_hands_out_each_node_once() {
        let search = LanSearch::over(&["10.0.0.1:8333"]);
        assert!(search.finds_any());
        assert_eq!(search.take().len(), 1);
        assert!(search.take().is_empty() && !search.finds_any());
        assert_eq!(LanSearch::over(&["10.0.0.1:8333", "10.0.0.2:8333"]).all().len(), 2);
    }
}

//! The peers of a sync that are served, with `--listen`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use apus_indexes::IndexReader;
use apus_net::{OfferedFeature, Outgoing, PeerId, PeerOptions, Serving};
use apus_node::options::Options;
use apus_node::view::View;
use apus_wire::message::{Command, Message, Services};

use super::lan::Announcement;
use super::link::{Answered, BlocksRequest, Link};
use super::stock::{Stock, filters_of, is_read_from_files};

/// The peers that are served, and what they are served from.
pub(super) struct ServedPeers {
    /// `None` until the first headers are requested, and without `--listen`.
    stock: Option<Arc<Stock>>,
    is_on: bool,
    /// Reads the filters of blocks, until `stock` has it.
    filters: Option<IndexReader>,
    /// The announcement on the local network, if there is to be one.
    lan: Option<Announcement>,
    bytes_max: Option<u64>,
    v2: bool,
    /// The peers whose handshake is complete.
    peers: BTreeMap<PeerId, Serving>,
}

impl ServedPeers {
    /// Creates the state without peers. They are served if the options say that we listen.
    pub fn new(of: &Options, options: &PeerOptions) -> Self {
        Self {
            stock: None,
            is_on: options.listen,
            filters: filters_of(of),
            lan: options.announce.then(|| Announcement::new(options.listening())),
            bytes_max: options.maxuploadtarget,
            v2: options.v2transport,
            peers: BTreeMap::new(),
        }
    }

    /// Serves what `view` shows now. Returns the announcements of a new tip.
    pub fn follow(&mut self, view: Option<&Arc<View>>) -> Vec<(PeerId, Outgoing)> {
        match &self.stock {
            _ if !self.is_on => return Vec::new(),
            None => {
                let view = view.cloned().expect("it is shown to peers");
                let stock = Stock::new(view, self.filters.take(), self.bytes_max);
                self.stock = Some(Arc::new(stock));
                return Vec::new();
            }
            Some(_) => {}
        }
        let Some(stock) = &self.stock else { return Vec::new() };
        let announced = self
            .peers
            .iter_mut()
            .filter_map(|(id, peer)| Some((*id, stock.served.look(|chain| peer.announce(chain))?)));
        announced.collect()
    }

    /// Announces on the local network what is served now, if it has the minimum chain work: peers
    /// get no headers of another. Returns what to tell the user.
    pub fn announce(&mut self) -> Option<String> {
        let lan = self.lan.as_mut()?;
        let stock = self.stock.as_ref()?;
        stock.served.look(|chain| if chain.has_minimum_work() { lan.set_tip(&chain) } else { None })
    }

    /// Does what the announcement needs about every second.
    pub fn tend(&mut self) {
        if let Some(lan) = &mut self.lan {
            lan.tend(Instant::now());
        }
    }

    /// Returns what peers are told that we serve.
    pub fn services(&self) -> Services {
        let Some(stock) = &self.stock else { return Services::default() };
        let v2 = if self.v2 { Services::P2P_V2 } else { Services::default() };
        stock.served.look(|chain| chain.services.with(v2))
    }

    /// Returns the features that peers are told of.
    pub fn features(&self) -> Vec<OfferedFeature> {
        self.stock.as_ref().map_or_else(Vec::new, |stock| stock.features())
    }

    /// Returns the height of the chain that is served; `None` if nothing is.
    pub fn height(&self) -> Option<u32> {
        let stock = self.stock.as_ref()?;
        Some(stock.served.look(|chain| chain.height()))
    }

    /// Adds a peer whose handshake is complete.
    pub fn add(&mut self, id: PeerId) {
        let Some(stock) = &self.stock else { return };
        self.peers.insert(id, stock.served.look(Serving::new));
    }

    /// Removes a peer whose connection is closed.
    pub fn remove(&mut self, id: PeerId) {
        self.peers.remove(&id);
    }

    /// Answers a message. Returns `false` if too many answers wait already.
    pub fn answer(
        &mut self,
        link: (PeerId, &Link),
        command: Command,
        (bytes, payload): (Vec<u8>, Range<usize>),
        answered: Option<Answered>,
    ) -> bool {
        let (id, link) = link;
        let (Some(stock), Some(peer)) = (&self.stock, self.peers.get_mut(&id)) else { return true };
        let message = match Message::decode(command, &bytes[payload.clone()]) {
            Ok(message) => message,
            Err(why) => {
                tracing::debug!(target: "net", peer = id.0, %why, "a message is ignored");
                return true;
            }
        };
        if is_read_from_files(&message) {
            let continuation = peer.continuation(&message);
            let stock = Arc::clone(stock);
            let request = BlocksRequest { stock, command, bytes, payload, continuation, answered };
            return link.send_blocks(request);
        }
        if let Message::Other = message {
            tracing::debug!(target: "net", peer = id.0, %command, "an unknown message is ignored");
        }
        match stock.served.look(|chain| peer.handle(&message, chain)) {
            Some(answer) => link.answer(answer, answered),
            None => true,
        }
    }
}

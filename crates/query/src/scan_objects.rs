//! The scan objects of `scanblocks` and `scantxoutset`: descriptors with ranges.

use apus_descriptors::{Descriptor, Provider, Range, ScriptPlace, Scripts};
use rayon::prelude::*;
use serde_json::Value;

use super::error::{RPC_INVALID_ADDRESS_OR_KEY, RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError};
use super::params;
use super::source::Call;

/// Number of indexes whose scripts are derived before a call looks whether it is to end.
const INDEXES_AT_ONCE: usize = 1000;

/// The descriptors of a call, and their scripts.
pub struct ScanObjects {
    /// Each with its first index.
    descriptors: Vec<(Descriptor, u32)>,
    /// The scripts, with the descriptor and the index that each is of.
    pub scripts: Scripts,
}

impl ScanObjects {
    /// Returns the parameter with a list of scan objects, for a scan that is to start.
    ///
    /// # Errors
    /// There is none.
    pub fn list<'a>(call: &'a Call) -> Result<&'a Value, RpcError> {
        let list = call.param(1);
        if list.is_null() {
            let what = "scanobjects argument is required for the start action";
            return Err(RpcError::new(RPC_MISC_ERROR, what));
        }
        Ok(list)
    }

    /// Reads a list of scan objects.
    ///
    /// # Errors
    /// One of them is wrong, or the call is to end.
    pub fn read(list: &Value, call: &Call) -> Result<Self, RpcError> {
        let mut all = Self { descriptors: Vec::new(), scripts: Scripts::default() };
        for object in params::array(list)? {
            all.add(object, call)?;
        }
        Ok(all)
    }

    /// Adds a scan object: a descriptor, or an object with one and its range (Core's
    /// `EvalDescriptorStringOrObject`).
    fn add(&mut self, object: &Value, call: &Call) -> Result<(), RpcError> {
        let invalid = |what: &str| RpcError::new(RPC_INVALID_PARAMETER, what);
        let (text, range) = match object {
            Value::String(text) => (&text[..], Range::default()),
            Value::Object(fields) => {
                let text = fields.get("desc").filter(|text| !text.is_null());
                let text =
                    text.ok_or_else(|| invalid("Descriptor needs to be provided in scan object"))?;
                let range = fields.get("range").filter(|range| !range.is_null());
                (params::text(text)?, range.map_or(Ok(Range::default()), range_of)?)
            }
            _ => return Err(invalid("Scan object needs to be either a string or an object")),
        };
        let refused = |error| RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, error);
        let parsed = Descriptor::parse(text, call.source.chain()).map_err(refused)?;
        let indexes = if parsed.is_range() { range.begin..=range.end } else { 0..=0 };
        let descriptor = self.descriptors.len() as u32;
        let first = *indexes.start();
        let pool = call.source.pool()?;
        for indexes in indexes.collect::<Vec<u32>>().chunks(INDEXES_AT_ONCE) {
            call.check_stop()?;
            // Threads cannot share a descriptor.
            let scripts = indexes.par_iter().map_with(parsed.clone(), |own, index| {
                own.scripts_at(*index).map(|scripts| (*index, scripts))
            });
            let derived: Result<Vec<_>, _> = pool.install(|| scripts.collect());
            for (index, scripts) in derived.map_err(refused)? {
                let place = ScriptPlace { descriptor, index: Some(index) };
                scripts.into_iter().for_each(|script| self.scripts.insert(script, place));
            }
        }
        self.descriptors.push((parsed, first));
        Ok(())
    }

    /// Returns the keys and scripts of which a script is made.
    pub fn provider(&self, script: &[u8]) -> Provider {
        let place = self.scripts.find(script);
        place.map_or_else(Provider::default, |ScriptPlace { descriptor, index }| {
            let (descriptor, first) = &self.descriptors[descriptor as usize];
            descriptor.provider_at(*first, index.unwrap_or(*first))
        })
    }
}

/// Reads a range: its end, or both ends (Core's `ParseDescriptorRange`).
fn range_of(value: &Value) -> Result<Range, RpcError> {
    let invalid = |what: &dyn std::fmt::Display| RpcError::new(RPC_INVALID_PARAMETER, what);
    let (begin, end) = match value {
        Value::Number(_) => (0, params::integer(value)?),
        Value::Array(ends) if ends.len() == 2 && ends.iter().all(Value::is_number) => {
            (params::integer(&ends[0])?, params::integer(&ends[1])?)
        }
        _ => return Err(invalid(&"Range must be specified as end or as [begin,end]")),
    };
    // Core checks the order of two ends alone.
    if value.is_number() && end < 0 {
        return Err(invalid(&"End of range is too high"));
    }
    Range::new(begin, end).map_err(|error| invalid(&error))
}

//! The frame of JSON-RPC 1.0, 1.1 and 2.0 around calls, with the statuses and errors of Bitcoin
//! Core (its `httprpc.cpp` and `rpc/request.cpp`). It does not know how calls are executed.

use std::fmt;
use std::marker::PhantomData;

use apus_query::RpcError;
use apus_query::error::RPC_INTERNAL_ERROR;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::OwnedSemaphorePermit;

use super::threads::NotDone;

/// The request is no call (Core's `RPC_INVALID_REQUEST`).
const INVALID_REQUEST: i32 = -32600;
/// There is no such method (Core's `RPC_METHOD_NOT_FOUND`).
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// The request is not JSON (Core's `RPC_PARSE_ERROR`).
const PARSE_ERROR: i32 = -32700;

/// The deepest that arrays and objects of a request may be nested (Core's `MAX_JSON_DEPTH`).
const DEPTH_MAX: usize = 512;
/// The most values of a request: each takes some 70 bytes in memory, and a call of a batch 200.
const VALUES_MAX: usize = 500_000;
/// The most names of parameters that are read: more than a method has.
const NAMES_MAX: usize = 64;
/// The most bytes of the replies to a batch. A larger one is refused as a whole.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Parameters of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Params {
    /// By position.
    List(Vec<Value>),
    /// By name, in the order of the request.
    Named(Vec<(String, Value)>),
}

/// An answer over HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The JSON text; `None` for an empty body.
    pub body: Option<Vec<u8>>,
}

/// Executes calls for one user.
pub(crate) trait Execute {
    /// Returns whether the user may call this method.
    fn allows(&self, method: &str) -> bool;

    /// Calls a method, and frames its reply.
    fn execute(
        &self,
        call: Call,
        frame: &Frame,
    ) -> impl Future<Output = Result<Executed, NotDone>> + Send;

    /// Waits until there is room for `bytes` bytes of replies.
    fn hold(&self, bytes: usize) -> impl Future<Output = Result<(), NotDone>> + Send;
}

/// A reply.
pub(crate) struct Executed {
    pub text: Vec<u8>,
    /// The code of the error; `None` for a result.
    pub error: Option<i32>,
    /// A call keeps its seat until there is room for the reply.
    pub seat: Option<OwnedSemaphorePermit>,
}

/// Answers a request.
///
/// # Errors
/// A call is not answered, or there is no room for the replies.
pub(crate) async fn answer(
    request: Result<Request, RpcError>,
    calls: &impl Execute,
) -> Result<Answer, NotDone> {
    let mut frame = Frame { id: Some(RawValue::NULL.to_owned()), version: Version::V1 };
    match request {
        Err(error) => Ok(frame.refuse(&error)),
        Ok(Request::Other) => {
            let error = RpcError::new(PARSE_ERROR, "Top-level object parse error");
            Ok(frame.refuse(&error))
        }
        Ok(Request::One(fields)) => match frame.take(fields) {
            Err(error) => Ok(frame.refuse(&error)),
            Ok(call) if !calls.allows(&call.method) => Ok(Answer { status: 403, body: None }),
            Ok(call) => frame.answer_one(call, calls).await,
        },
        Ok(Request::Batch(all)) => frame.answer_batch(all, calls).await,
    }
}

/// Parses a body.
///
/// # Errors
/// It is no JSON, nested too deep, or has too many values.
pub(crate) fn parse(body: &[u8]) -> Result<Request, RpcError> {
    let refused = |what: &str| Err(RpcError::new(PARSE_ERROR, what));
    let (depth, values) = measure(body);
    if values > VALUES_MAX {
        return refused("The request has too many values: split it");
    }
    let text = std::str::from_utf8(body).ok().filter(|_| depth <= DEPTH_MAX);
    let text = text.filter(|text| has_whole_pairs(text));
    text.and_then(|text| Request::read(text).ok()).map_or_else(|| refused("Parse error"), Ok)
}

/// Returns how deep arrays and objects are nested in JSON text, and at least how many values and
/// names it has.
fn measure(text: &[u8]) -> (usize, usize) {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    let mut values = 1;
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    (deepest, values)
}

/// Returns whether each surrogate that JSON text escapes is one of a pair. `serde_json` does not
/// check that in values that are not read.
fn has_whole_pairs(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, escape)) = rest.split_once('\\') {
        rest = match escaped(escape) {
            Some(0xd800..0xdc00) => {
                let low = escape[5..].strip_prefix('\\');
                match low.filter(|low| matches!(escaped(low), Some(0xdc00..0xe000))) {
                    Some(low) => &low[5..],
                    None => return false,
                }
            }
            Some(0xdc00..0xe000) => return false,
            _ => escape.strip_prefix('\\').unwrap_or(escape),
        };
    }
    true
}

/// Returns the number in `uXXXX`, with which a text begins.
fn escaped(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix('u')?.get(..4)?, 16).ok()
}

/// Returns an id as Core shows it: numbers as they were written, strings and others rewritten.
fn rewritten(id: Box<RawValue>) -> Box<RawValue> {
    match id.get().as_bytes().first() {
        Some(b'"' | b'[' | b'{') => {
            let value = serde_json::from_str::<Value>(id.get());
            value.and_then(|value| to_raw_value(&value)).unwrap_or(id)
        }
        _ => id,
    }
}

/// A call whose form is right.
pub(crate) struct Call {
    /// The name of the method.
    pub method: String,
    /// Its parameters.
    pub params: Params,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    /// 1.0 and 1.1.
    V1,
    /// 2.0.
    V2,
}

/// The version and the id of the present call. As in Core, an element of a batch that is no object
/// is answered with those of the element before it.
#[derive(Clone)]
pub(crate) struct Frame {
    id: Option<Box<RawValue>>,
    version: Version,
}

impl Frame {
    /// Takes version and id of a request, and returns its call (Core's `JSONRPCRequest::parse`).
    fn take(&mut self, fields: Fields) -> Result<Call, RpcError> {
        let Fields { id, jsonrpc, method, params } = fields;
        (self.id, self.version) = (id.map(rewritten), Version::V1);
        let wrong = |what: &str| Err(RpcError::new(INVALID_REQUEST, what));
        self.version = match jsonrpc {
            Value::Null => Version::V1,
            Value::String(version) if version == "1.0" => Version::V1,
            Value::String(version) if version == "2.0" => Version::V2,
            Value::String(_) => return wrong("JSON-RPC version not supported"),
            _ => return wrong("jsonrpc field must be a string"),
        };
        let method = match method {
            Value::Null => return wrong("Missing method"),
            Value::String(method) => method,
            _ => return wrong("Method must be a string"),
        };
        match params {
            Some(params) => Ok(Call { method, params }),
            None => wrong("Params must be an array or object"),
        }
    }

    fn is_notification(&self) -> bool {
        self.version == Version::V2 && self.id.is_none()
    }

    async fn answer_one(&self, call: Call, calls: &impl Execute) -> Result<Answer, NotDone> {
        let Executed { text, error, seat } = calls.execute(call, self).await?;
        calls.hold(text.len()).await?;
        drop(seat);
        if self.is_notification() {
            return Ok(Answer { status: 204, body: None });
        }
        let error = error.filter(|_| self.version == Version::V1);
        Ok(Answer { status: error.map_or(200, status), body: Some(line(text)) })
    }

    async fn answer_batch(
        &mut self,
        all: Vec<Option<Fields>>,
        calls: &impl Execute,
    ) -> Result<Answer, NotDone> {
        let mut methods = all.iter().flatten().filter_map(|fields| fields.method.as_str());
        if !methods.all(|method| calls.allows(method)) {
            return Ok(Answer { status: 403, body: None });
        }
        let is_empty = all.is_empty();
        let mut body = vec![b'['];
        for element in all {
            let call = match element {
                Some(fields) => self.take(fields),
                None => Err(RpcError::new(INVALID_REQUEST, "Invalid Request object")),
            };
            let done = match call {
                Ok(call) => calls.execute(call, self).await?,
                Err(error) => self.frame(Err(error)),
            };
            if self.is_notification() {
                continue;
            }
            let Executed { text, seat, .. } = done;
            calls.hold(body.len() + text.len()).await?;
            drop(seat);
            if body.len() > 1 {
                body.push(b',');
            }
            body.extend(text);
            if body.len() > BATCH_BYTES_MAX {
                let what = "The replies to this batch are too large: split it";
                (self.id, self.version) = (Some(RawValue::NULL.to_owned()), Version::V1);
                return Ok(self.refuse(&RpcError::new(RPC_INTERNAL_ERROR, what)));
            }
        }
        // An empty batch is answered, since it names no version.
        if body.len() == 1 && !is_empty {
            return Ok(Answer { status: 204, body: None });
        }
        body.push(b']');
        Ok(Answer { status: 200, body: Some(line(body)) })
    }

    /// Returns the answer to a call that fails with an HTTP error (Core's `JSONErrorReply`).
    fn refuse(&self, error: &RpcError) -> Answer {
        let reply = Reply::<&RawValue>::of(self.version, Err(error), self.id.as_deref());
        Answer { status: status(error.code), body: Some(line(reply.text())) }
    }

    /// Frames the result of a call.
    pub fn frame(&self, result: Result<Box<RawValue>, RpcError>) -> Executed {
        let text = Reply::of(self.version, result.as_ref(), self.id.as_deref()).text();
        Executed { text, error: result.err().map(|error| error.code), seat: None }
    }
}

/// Returns the HTTP status of an error.
fn status(code: i32) -> u16 {
    match code {
        INVALID_REQUEST => 400,
        METHOD_NOT_FOUND => 404,
        _ => 500,
    }
}

fn line(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

/// A reply, with its fields in Core's order.
#[derive(Serialize)]
#[serde(untagged)]
enum Reply<'a, T> {
    /// Of version 1: each reply has a result and an error, one of them null.
    V1 {
        result: Option<T>,
        error: Option<Reason<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a RawValue>,
    },
    /// Of version 2.
    V2 {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<T>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Reason<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a RawValue>,
    },
}

/// An error in a reply.
#[derive(Serialize)]
struct Reason<'a> {
    code: i32,
    message: &'a str,
}

impl<'a, T: Serialize> Reply<'a, T> {
    fn of(version: Version, result: Result<T, &'a RpcError>, id: Option<&'a RawValue>) -> Self {
        let (result, error) = match result {
            Ok(result) => (Some(result), None),
            Err(RpcError { code, message }) => (None, Some(Reason { code: *code, message })),
        };
        match version {
            Version::V1 => Self::V1 { result, error, id },
            Version::V2 => Self::V2 { jsonrpc: "2.0", result, error, id },
        }
    }

    fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers")
    }
}

/// The body of a request.
pub(crate) enum Request {
    /// A call.
    One(Fields),
    /// Several; `None` for an element that is no object.
    Batch(Vec<Option<Fields>>),
    /// Neither.
    Other,
}

/// The fields of a call. If a name occurs twice, the first one counts, as in Core.
pub(crate) struct Fields {
    id: Option<Box<RawValue>>,
    jsonrpc: Value,
    method: Value,
    /// `None` if they are neither a list nor an object.
    params: Option<Params>,
}

impl Request {
    fn read(text: &str) -> serde_json::Result<Self> {
        Ok(match first(text) {
            Some('{') => Self::One(Fields::read(text)?),
            Some('[') => {
                let call = |element: &RawValue| {
                    let is_object = first(element.get()) == Some('{');
                    is_object.then(|| Fields::read(element.get())).transpose()
                };
                let all: Vec<&RawValue> = read(text)?;
                Self::Batch(all.into_iter().map(call).collect::<Result<_, _>>()?)
            }
            _ => read::<IgnoredAny>(text).map(|_| Self::Other)?,
        })
    }
}

impl Fields {
    fn read(text: &str) -> serde_json::Result<Self> {
        let Pairs(fields) = read::<Pairs<&RawValue>>(text)?;
        let find = |name| Some(fields.iter().find(|(known, _)| known == name)?.1);
        let value = |name| find(name).map_or(Ok(Value::Null), |value| read(value.get()));
        let params = find("params").map_or("null", RawValue::get);
        let params = match first(params) {
            Some('[') => Some(Params::List(read(params)?)),
            Some('{') => {
                let Pairs(mut named) = read(params)?;
                named.truncate(NAMES_MAX + 1);
                Some(Params::Named(named))
            }
            _ => (params == "null").then(|| Params::List(Vec::new())),
        };
        let id = find("id").map(RawValue::to_owned);
        Ok(Self { id, jsonrpc: value("jsonrpc")?, method: value("method")?, params })
    }
}

/// Returns the character with which JSON text begins.
fn first(text: &str) -> Option<char> {
    text.trim_start().chars().next()
}

/// Reads JSON text, however deep it is nested: `serde_json` allows less by itself.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end().map(|()| value)
}

/// The fields of an object, all of them and in order.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                std::iter::from_fn(|| map.next_entry().transpose())
                    .collect::<Result<_, _>>()
                    .map(Pairs)
            }
        }
        deserializer.deserialize_map(Read(PhantomData))
    }
}

#[cfg(test)]
mod tests;

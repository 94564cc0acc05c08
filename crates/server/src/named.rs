//! Parameters by name, put into the places that a method has for them (Core's
//! `transformNamedArguments`).

use serde_json::{Map, Value};

use super::rpc_error::{INVALID_PARAMETER, RpcError};

/// A parameter of a method, as it is named.
pub(crate) struct Name<'a> {
    /// The name, and others that it has, with `|` between them.
    pub names: &'a str,
    /// Whether it is a field of the object that comes next, and has no place of its own.
    pub is_option: bool,
}

/// Returns the parameters by place.
pub(crate) fn by_place(
    given: Vec<(String, Value)>,
    names: &[Name],
) -> Result<Vec<Value>, RpcError> {
    let wrong = |what: String| Err(RpcError::new(INVALID_PARAMETER, what));
    let mut left: Vec<(String, Value)> = Vec::new();
    for (name, value) in given {
        if left.iter().any(|(known, _)| *known == name) {
            return wrong(format!("Parameter {name} specified multiple times"));
        }
        left.push((name, value));
    }
    let mut take = |names: &str| {
        let at = names.split('|').find_map(|name| left.iter().position(|(it, _)| it == name))?;
        Some(left.remove(at))
    };
    let (mut places, mut options) = (Vec::new(), Map::new());
    // Places that are skipped become null once a later one is given.
    let (mut hole, mut first_hole, mut first) = (0, 0, None);
    for Name { names, is_option } in names {
        let found = take(names);
        if *is_option {
            options.extend(found);
            continue;
        }
        if options.is_empty() && found.is_none() {
            hole += 1;
            if places.is_empty() {
                first_hole = hole;
            }
            continue;
        }
        places.extend(std::iter::repeat_n(Value::Null, std::mem::take(&mut hole)));
        first = first.or(Some(*names));
        if let Some((name, value)) = found {
            if let Some(option) = options.keys().next() {
                return wrong(format!("Parameter {name} conflicts with parameter {option}"));
            }
            places.push(value);
        }
        if !options.is_empty() {
            places.push(Value::Object(std::mem::take(&mut options)));
        }
    }
    if let Some((_, Value::Array(mut before))) = take("args") {
        if let Some(first) = first.filter(|_| first_hole < before.len()) {
            return wrong(format!(
                "Parameter {first} specified twice both as positional and named argument"
            ));
        }
        before.extend(places.into_iter().skip(before.len()));
        places = before;
    }
    match left.first() {
        Some((name, _)) => wrong(format!("Unknown named parameter {name}")),
        None => Ok(places),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NAMES: [Name; 4] = [
        Name { names: "a", is_option: false },
        Name { names: "b|bb", is_option: false },
        Name { names: "x", is_option: true },
        Name { names: "options", is_option: false },
    ];

    fn places(given: Value) -> Result<Value, String> {
        let Value::Object(given) = given else { panic!("{given}") };
        let given = given.into_iter().collect();
        by_place(given, &NAMES).map(Value::Array).map_err(|error| error.message)
    }

    #[test]
    fn names_lead_to_places() {
        for (given, expected) in [
            (json!({}), json!([])),
            (json!({"a": 1}), json!([1])),
            (json!({"bb": 2}), json!([null, 2])),
            (json!({"a": 1, "x": 3}), json!([1, null, {"x": 3}])),
            (json!({"args": [1], "b": 2}), json!([1, 2])),
            (json!({"args": [1, 2, 3, 4]}), json!([1, 2, 3, 4])),
            (json!({"args": [1], "options": 5}), json!([1, null, 5])),
            (json!({"args": 1}), json!([])),
        ] {
            assert_eq!(places(given.clone()), Ok(expected), "{given}");
        }
    }

    #[test]
    fn wrong_names_are_refused_in_the_words_of_core() {
        for (given, expected) in [
            (json!({"c": 1}), "Unknown named parameter c"),
            (json!({"b": 1, "bb": 1}), "Unknown named parameter bb"),
            (json!({"x": 1, "options": 1}), "Parameter options conflicts with parameter x"),
            (
                json!({"args": [1], "a": 1}),
                "Parameter a specified twice both as positional and named argument",
            ),
        ] {
            assert_eq!(places(given.clone()).unwrap_err(), expected, "{given}");
        }
        let twice = vec![("a".to_string(), json!(1)), ("a".to_string(), json!(2))];
        let error = by_place(twice, &NAMES).unwrap_err();
        assert_eq!(error.message, "Parameter a specified multiple times");
    }
}

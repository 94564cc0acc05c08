//! Finds circles of files: in one crate, a file that names an item of another file, which names,
//! perhaps through more files, an item of the first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use crate::modules::Crate;
use crate::names::Names;

/// Which file of a crate names items of which.
#[derive(Default)]
pub struct Graph {
    /// For each arrow, from the file that names to the file that defines: the items that are named.
    arrows: BTreeMap<String, BTreeMap<String, Items>>,
}

/// The items that make an arrow, each with the first line that names it.
type Items = BTreeMap<String, usize>;

/// An arrow that is left out of the search for circles.
pub struct Exception {
    /// The crate.
    pub of: &'static str,
    pub from: &'static str,
    pub to: &'static str,
    /// Why the circle is worth its cost.
    pub reason: &'static str,
}

/// The most items of an arrow that a message shows.
const ITEMS_SHOWN_MAX: usize = 4;

impl Graph {
    /// Returns the arrows between the files of `all`.
    pub fn of(all: &Crate) -> Graph {
        let names = Names::new(all);
        let mut graph = Graph::default();
        for (id, module) in all.modules.iter().enumerate() {
            for named in &module.named {
                for (home, name) in names.definitions(id, &named.path) {
                    let home = &all.modules[home].file;
                    if *home != module.file {
                        let arrows = graph.arrows.entry(module.file.clone()).or_default();
                        let names = arrows.entry(home.clone()).or_default();
                        names.entry(name).or_insert(named.line);
                    }
                }
            }
        }
        graph
    }

    pub fn arrow_count(&self) -> usize {
        self.arrows.values().map(BTreeMap::len).sum()
    }

    /// Returns what is wrong: each circle that no exception breaks, and each exception that breaks
    /// none.
    pub fn complaints(mut self, exceptions: &[&Exception]) -> Vec<String> {
        let mut wrong = Vec::new();
        for Exception { from, to, reason, .. } in exceptions {
            assert!(!reason.is_empty(), "{from} -> {to}: an exception needs a reason");
            if self.circle_through(from, to).is_none() {
                wrong.push(format!(
                    "the exception {from} -> {to} breaks no circle any more: delete its line"
                ));
            }
        }
        for Exception { from, to, .. } in exceptions {
            self.remove(from, to);
        }
        while let Some(circle) = self.shortest_circle() {
            // The search goes on without this arrow: the fewest names make it, so it is the easiest
            // to remove.
            let (from, to) = steps(&circle)
                .min_by_key(|(from, to)| self.arrows[*from][*to].len())
                .map(|(from, to)| (from.clone(), to.clone()))
                .expect("a circle has arrows");
            wrong.push(self.describe(&circle) + &format!("  (least: {from} -> {to})\n"));
            self.remove(&from, &to);
        }
        wrong
    }

    fn remove(&mut self, from: &str, to: &str) {
        if let Some(arrows) = self.arrows.get_mut(from) {
            arrows.remove(to);
        }
    }

    fn shortest_circle(&self) -> Option<Vec<String>> {
        let arrows = self.arrows.iter().flat_map(|(from, to)| to.keys().map(move |to| (from, to)));
        arrows.filter_map(|(from, to)| self.circle_through(from, to)).min_by_key(Vec::len)
    }

    /// Returns the shortest circle that begins with the arrow from `from` to `to`, if that exists:
    /// its files in order, each once.
    fn circle_through(&self, from: &str, to: &str) -> Option<Vec<String>> {
        self.arrows.get(from)?.get(to)?;
        // For each file that was reached from `to`, the file before it.
        let mut before = BTreeMap::<&str, &str>::new();
        let mut reached = BTreeSet::from([to]);
        let mut queue = VecDeque::from([to]);
        while let Some(file) = queue.pop_front() {
            for next in self.arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next) {
                    before.insert(next, file);
                    queue.push_back(next);
                }
            }
        }
        reached.contains(from).then(|| {
            let back = std::iter::successors(Some(from), |file| before.get(*file).copied());
            let mut circle: Vec<String> = back.map(str::to_string).collect();
            circle.reverse();
            circle.rotate_right(1);
            circle
        })
    }

    fn describe(&self, circle: &[String]) -> String {
        let mut text = format!("a circle of {} files:\n", circle.len());
        for (from, to) in steps(circle) {
            let items = &self.arrows[from][to];
            let shown = items.iter().take(ITEMS_SHOWN_MAX);
            let shown: Vec<String> =
                shown.map(|(item, line)| format!("{item} (line {line})")).collect();
            let shown = shown.join(", ");
            let more = match items.len().saturating_sub(ITEMS_SHOWN_MAX) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            writeln!(text, "  {from} -> {to}: {shown}{more}").expect("into a string");
        }
        text
    }
}

/// Returns each file of a circle with the next.
fn steps(circle: &[String]) -> impl Iterator<Item = (&String, &String)> {
    circle.iter().zip(circle.iter().cycle().skip(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is wrong with these files, given with their content.
    fn complaints(files: &[(&str, &str)], exceptions: &[Exception]) -> Vec<String> {
        let files: BTreeMap<&str, &str> = files.iter().copied().collect();
        let all = Crate::parse(|file| files.get(file).map(|text| text.to_string()));
        Graph::of(&all).complaints(&exceptions.iter().collect::<Vec<_>>())
    }

    /// Returns what is wrong with a module `m` of the files `m/a.rs`, `m/b.rs` and `m/mod.rs`.
    fn of_two(module: &str, a: &str, b: &str) -> Vec<String> {
        let module = format!("mod a; mod b; {module}");
        let files = [("lib.rs", "mod m;"), ("m/mod.rs", &*module), ("m/a.rs", a), ("m/b.rs", b)];
        complaints(&files, &[])
    }

    #[test]
    fn arrows_in_one_direction_are_no_circle() {
        let wrong = of_two("pub use a::A; pub use b::{self, B};", "pub struct A;", "use super::A;");
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn each_way_to_name_an_item_is_an_arrow() {
        let ways = [
            "use super::b::B;",
            "use crate::m::b::{C as D, B};",
            "use crate::{m::{b::{self}}}; fn f(_: b::B) {}",
            "use super::b; fn f() { b::g() }",
            "fn f() { g!(crate::m::b::B) }",
            "use super::B;",
            "use super::Both;",
            "use super::*; fn f(_: Option<B>) {}",
            "use super::*; fn f() { let b = g(); }",
            "fn f() { use super::B as E; }",
            "impl crate::m::B { }",
            "fn f(b: &crate::m::Both::Variant) {}",
        ];
        for way in ways {
            let wrong = of_two(
                "pub use b::{\n    B as Both,\n    B, g,\n};",
                &format!("pub struct A; {way}"),
                "pub enum B { Variant } pub struct C; pub fn g() {} fn f(a: super::a::A) {}",
            );
            assert_eq!(wrong.len(), 1, "{way}: {wrong:?}");
        }
    }

    #[test]
    fn comments_tests_and_other_crates_are_no_arrows() {
        let ways = [
            "/// [`super::b::B`]",
            "#[cfg(test)] mod tests { use super::super::b::B; }",
            "#[cfg(test)] mod c;",
            "use std::b::B;",
            "fn f() { \"super::b::B\"; x.g(); }",
            "pub use super::b::B;",
            "use super::b;",
            "fn g() {} fn f() { g() }",
        ];
        for way in ways {
            let b = "pub struct B; pub fn g() {} fn f(a: super::a::A) {}";
            let wrong = of_two("", &format!("pub struct A; {way}"), b);
            assert_eq!(wrong, [""; 0], "{way}");
        }
    }

    #[test]
    fn functions_of_a_type_count_where_their_impl_block_is() {
        let b = "use super::a::A; impl A { pub fn new() {} fn grow(&self) {} }";
        for way in ["Self::new();", "self.grow();", "A::new();"] {
            let a = format!("pub struct A; impl A {{ fn f(&self) {{ {way} }} }}");
            assert_eq!(of_two("", &a, b).len(), 1, "{way}");
        }
        let a = "pub struct A; impl A { fn f(&self) { self.other(); self.grow; } }";
        assert_eq!(of_two("", a, b), [""; 0]);
    }

    #[test]
    fn a_circle_through_the_module_itself_is_one() {
        let wrong = of_two("struct M; fn f(_: a::A) {}", "pub struct A; fn f(_: super::M) {}", "");
        let expected = "a circle of 2 files:\n  \
            m/a.rs -> m/mod.rs: M (line 1)\n  \
            m/mod.rs -> m/a.rs: A (line 1)\n  \
            (least: m/a.rs -> m/mod.rs)\n";
        assert_eq!(wrong, [expected]);
    }

    #[test]
    fn a_longer_circle_lists_its_files_in_order() {
        let files = [
            ("lib.rs", "mod m; mod n;"),
            ("n.rs", "pub struct N; use crate::m::a::A;"),
            ("m/mod.rs", "mod a; mod b; mod c;"),
            ("m/a.rs", "pub struct A; use super::b::B;"),
            ("m/b.rs", "pub struct B; use super::c::C;"),
            ("m/c/mod.rs", "mod d; pub use d::C;"),
            ("m/c/d.rs", "pub struct C; use crate::m::a;\nfn f() -> a::A {}"),
        ];
        let expected = "a circle of 3 files:\n  \
            m/a.rs -> m/b.rs: B (line 1)\n  \
            m/b.rs -> m/c/d.rs: C (line 1)\n  \
            m/c/d.rs -> m/a.rs: A (line 2)\n  \
            (least: m/a.rs -> m/b.rs)\n";
        assert_eq!(complaints(&files, &[]), [expected]);
    }

    #[test]
    fn a_module_and_a_function_of_one_name_are_told_apart() {
        let files = [
            ("lib.rs", "mod inside { pub mod m; } use inside::*; pub use m::m;"),
            ("inside/m/mod.rs", "mod a; mod b; pub use a::m;"),
            ("inside/m/a.rs", "pub fn m() {} use super::b::B;"),
            ("inside/m/b.rs", "pub struct B; pub struct C; use crate::m::b::C;"),
        ];
        assert_eq!(complaints(&files, &[]), [""; 0]);
    }

    #[test]
    fn path_attributes_are_followed() {
        let files = [
            ("lib.rs", "#[path = \"\"] mod inside { pub mod m; } pub use inside::*;"),
            ("m/mod.rs", "#[cfg(unix)] #[path = \"c.rs\"] mod a; mod b;"),
            ("m/c.rs", "pub struct A; use crate::m::b::B;"),
            ("m/b.rs", "pub struct B; use super::a::A;"),
        ];
        let expected = "a circle of 2 files:\n  \
            m/b.rs -> m/c.rs: A (line 1)\n  \
            m/c.rs -> m/b.rs: B (line 1)\n  \
            (least: m/b.rs -> m/c.rs)\n";
        assert_eq!(complaints(&files, &[]), [expected]);
    }

    #[test]
    fn an_exception_breaks_a_circle_and_must_break_one() {
        let needed = Exception { of: "c", from: "m/a.rs", to: "m/b.rs", reason: "for this test" };
        let stale = Exception { of: "c", from: "m/b.rs", to: "m/c.rs", reason: "for this test" };
        let files = [
            ("lib.rs", "mod m;"),
            ("m/mod.rs", "mod a; mod b;"),
            ("m/a.rs", "pub struct A; use super::b::B;"),
            ("m/b.rs", "pub struct B; use super::a::A;"),
        ];
        let wrong = complaints(&files, &[needed, stale]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(
            wrong[0].starts_with("the exception m/b.rs -> m/c.rs breaks no circle"),
            "{wrong:?}"
        );
    }
}

//! Resolves paths: finds the module and the name under which an item is defined, through imports
//! and re-exports.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::modules::{Crate, ModuleId};

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Module(ModuleId),
    /// An item of this crate.
    Item {
        module: ModuleId,
        name: String,
    },
}

/// The names of a crate, by which its paths are resolved.
pub struct Names<'a> {
    all: &'a Crate,
    /// For each function of a type, the modules whose `impl` blocks define it.
    methods: BTreeMap<(Target, String), Vec<ModuleId>>,
    /// The results of [`Names::lookup`]; `None` while a lookup runs, so that imports in a circle
    /// end.
    known: RefCell<BTreeMap<(ModuleId, String, bool), Option<Target>>>,
}

impl<'a> Names<'a> {
    pub fn new(all: &'a Crate) -> Names<'a> {
        let mut names = Names { all, methods: BTreeMap::new(), known: RefCell::default() };
        let mut methods = BTreeMap::<_, Vec<ModuleId>>::new();
        for method in &all.methods {
            if let Some((of, [])) = names.resolve(method.module, &method.of) {
                methods.entry((of, method.name.clone())).or_default().push(method.module);
            }
        }
        names.methods = methods;
        names
    }

    /// Returns what `path` names in `module`: an item with the module that defines it, and a
    /// function of that item if the path goes on to one.
    pub fn definitions(&self, module: ModuleId, path: &[String]) -> Vec<(ModuleId, String)> {
        let Some((item, rest)) = self.resolve(module, path) else { return Vec::new() };
        let Target::Item { module: home, name } = &item else { return Vec::new() };
        let mut found = vec![(*home, name.clone())];
        if let Some(method) = rest.first()
            && let Some(&[only]) = self.methods.get(&(item.clone(), method.clone())).map(|m| &m[..])
        {
            found.push((only, format!("{name}::{method}")));
        }
        found
    }

    /// Returns what `path` leads to from `module`, and the rest of the path after an item; `None`
    /// if it leads out of this crate, or to nothing that a module defines.
    pub fn resolve<'p>(
        &self,
        module: ModuleId,
        path: &'p [String],
    ) -> Option<(Target, &'p [String])> {
        let mut at = Target::Module(module);
        let mut rest = path;
        while let (Target::Module(here), Some((first, after))) = (&at, rest.split_first()) {
            at = match first.as_str() {
                "crate" => Target::Module(0),
                "self" => Target::Module(*here),
                "super" => Target::Module(self.all.modules[*here].parent),
                name => self.lookup(*here, name, !after.is_empty())?,
            };
            rest = after;
        }
        Some((at, rest))
    }

    /// Returns what `name` is in `module`. If a module and an item share the name, a path that goes
    /// on means the module.
    fn lookup(&self, module: ModuleId, name: &str, goes_on: bool) -> Option<Target> {
        let key = (module, name.to_string(), goes_on);
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        self.known.borrow_mut().insert(key.clone(), None);
        let mut found = self.all_that_have(module, name, goes_on);
        found.sort_by_key(|target| matches!(target, Target::Module(_)) != goes_on);
        let found = found.into_iter().next();
        self.known.borrow_mut().insert(key, found.clone());
        found
    }

    /// Returns the module and the item called `name` in `module`: its own first, then imported
    /// ones.
    fn all_that_have(&self, module: ModuleId, name: &str, goes_on: bool) -> Vec<Target> {
        let here = &self.all.modules[module];
        let child = here.children.get(name).map(|&child| Target::Module(child));
        let is_item = here.items.iter().any(|item| item == name);
        let item = is_item.then(|| Target::Item { module, name: name.to_string() });
        let mut found: Vec<Target> = child.into_iter().chain(item).collect();
        for import in &here.imports {
            if import.name == name {
                match self.resolve(module, &import.path) {
                    Some((target, [])) => found.push(target),
                    // A name inside an item, such as an enum's variant, is the item.
                    Some((target @ Target::Item { .. }, _)) => found.push(target),
                    _ => {}
                }
            } else if import.name == "*" {
                // The path of a glob starts at a module, or leads out of this crate.
                let starts_here = ["crate", "self", "super"].contains(&&*import.path[0])
                    || here.children.contains_key(&import.path[0]);
                if starts_here
                    && let Some((Target::Module(other), [])) = self.resolve(module, &import.path)
                    && other != module
                {
                    found.extend(self.lookup(other, name, goes_on));
                }
            }
        }
        found
    }
}

//! Reads the tree of modules below `lib.rs`: the items that each module defines, the names that it
//! imports, and the paths that its code names. Code under `#[cfg(test)]` is left out.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tokens::{Kind, Token, end_of_group, tokens, without_tests};

/// An index into [`Crate::modules`].
pub type ModuleId = usize;

/// All modules of a crate; the first is the root.
#[derive(Default)]
pub struct Crate {
    pub modules: Vec<Module>,
    /// Functions inside `impl` blocks.
    pub methods: Vec<Method>,
}

/// A module, in a file of its own or in braces.
#[derive(Default)]
pub struct Module {
    /// The file that holds the module, below the crate's source folder.
    pub file: String,
    pub parent: ModuleId,
    pub children: BTreeMap<String, ModuleId>,
    /// Names of the items that the module defines.
    pub items: Vec<String>,
    pub imports: Vec<Import>,
    /// Paths named by code, and by imports that are not re-exports.
    pub named: Vec<Named>,
}

/// A name that a `use` declaration imports.
pub struct Import {
    /// The name in this module; `*` for all names of the module that the path leads to.
    pub name: String,
    pub path: Vec<String>,
}

/// A path as it stands in the code.
pub struct Named {
    pub path: Vec<String>,
    pub line: usize,
}

/// A function of a type, defined in an `impl` block of `module`.
pub struct Method {
    pub module: ModuleId,
    /// The type's path as it stands after `impl` or `for`.
    pub of: Vec<String>,
    pub name: String,
}

impl Crate {
    /// Reads `lib.rs` below `root` and every file that it leads to.
    pub fn read(root: &Path) -> Crate {
        Crate::parse(|file| std::fs::read_to_string(root.join(file)).ok())
    }

    /// Reads `lib.rs` and every file that it leads to; `text_of` is `None` for a missing file.
    pub fn parse(text_of: impl Fn(&str) -> Option<String>) -> Crate {
        let mut all = Crate::default();
        let root = Module { file: "lib.rs".to_string(), ..Module::default() };
        all.modules.push(root);
        // Modules whose files are still to be read, with the folder of their children.
        let mut unread = vec![(0, String::new())];
        while let Some((module, folder)) = unread.pop() {
            let file = all.modules[module].file.clone();
            let text = text_of(&file).unwrap_or_else(|| panic!("{file} is missing"));
            let code = without_tests(&tokens(&text));
            let declared = Reader { all: &mut all, tokens: &code }.module(module, &folder);
            for Declared { child, folder, path } in declared {
                let file = path.unwrap_or_else(|| format!("{folder}.rs"));
                let is_file = text_of(&file).is_some();
                all.modules[child].file = if is_file { file } else { format!("{folder}/mod.rs") };
                unread.push((child, folder));
            }
        }
        all
    }
}

/// A module declared with `mod name;`.
struct Declared {
    child: ModuleId,
    /// The folder of the module's children, below the crate's source folder.
    folder: String,
    /// The module's file, if a `path` attribute names it.
    path: Option<String>,
}

struct Reader<'a> {
    all: &'a mut Crate,
    tokens: &'a [Token],
}

impl Reader<'_> {
    /// Reads the tokens as the content of `module`. Returns the modules declared in it.
    fn module(&mut self, module: ModuleId, folder: &str) -> Vec<Declared> {
        let mut declared = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let start = self.after_attributes(at);
            let path = self.path_attribute(at, start);
            at = self.item(module, folder, start, path, &mut declared);
        }
        declared
    }

    fn after_attributes(&self, mut at: usize) -> usize {
        while self.is(at, "#") {
            let bracket = if self.is(at + 1, "!") { at + 2 } else { at + 1 };
            at = end_of_group(self.tokens, bracket);
        }
        at
    }

    /// Returns what `#[path = "…"]` says among the attributes from `start` to `end`.
    fn path_attribute(&self, start: usize, end: usize) -> Option<String> {
        let at = (start..end).find(|&at| self.is(at, "path") && self.is(at + 1, "="))?;
        Some(self.tokens[at + 2].text.trim_matches('"').to_string())
    }

    /// Reads the item at `at`. Returns the index after it.
    fn item(
        &mut self,
        module: ModuleId,
        folder: &str,
        at: usize,
        path: Option<String>,
        declared: &mut Vec<Declared>,
    ) -> usize {
        let public = self.is(at, "pub");
        let start = if public && self.is(at + 1, "(") {
            end_of_group(self.tokens, at + 1)
        } else if public {
            at + 1
        } else {
            at
        };
        let Some(first) = self.tokens.get(start) else { return self.tokens.len() };
        if first.is("mod") {
            return self.child(module, folder, start + 1, path, declared);
        }
        let end = self.end_of_item(start);
        if first.is("use") {
            self.import(module, start, public);
        } else if first.is("impl") || first.is("unsafe") && self.is(start + 1, "impl") {
            self.implementation(module, start, end);
        } else {
            if let Some(name) = self.defined_name(start, end) {
                self.all.modules[module].items.push(name);
            }
            self.code(module, start, end, None);
        }
        end
    }

    /// Reads what follows `mod`. Returns the index after the declaration.
    fn child(
        &mut self,
        parent: ModuleId,
        folder: &str,
        at: usize,
        path: Option<String>,
        declared: &mut Vec<Declared>,
    ) -> usize {
        let below = |name: &str| [folder, name].join("/").trim_matches('/').to_string();
        let name = &self.tokens[at].text;
        let id = self.all.modules.len();
        let file = self.all.modules[parent].file.clone();
        self.all.modules.push(Module { file, parent, ..Module::default() });
        self.all.modules[parent].children.insert(name.clone(), id);
        if self.is(at + 1, ";") {
            let path = path.map(|path| below(&path));
            declared.push(Declared { child: id, folder: below(name), path });
            return at + 2;
        }
        let folder = below(path.as_ref().unwrap_or(name));
        let end = end_of_group(self.tokens, at + 1);
        let inside = &self.tokens[at + 2..end - 1];
        declared.extend(Reader { all: self.all, tokens: inside }.module(id, &folder));
        end
    }

    /// Returns the name that a definition at `start` gives to its module, if it is one.
    fn defined_name(&self, start: usize, end: usize) -> Option<String> {
        const KEYWORDS: [&str; 8] =
            ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
        const MODIFIERS: [&str; 6] = ["const", "unsafe", "async", "extern", "mut", "default"];
        if self.is(start, "macro_rules") {
            return Some(self.tokens[start + 2].text.clone());
        }
        let mut keyword_seen = false;
        for token in self.tokens[start..end].iter().filter(|t| t.kind != Kind::Literal) {
            let is_keyword = KEYWORDS.iter().any(|keyword| token.is(keyword));
            if !is_keyword && !MODIFIERS.iter().any(|modifier| token.is(modifier)) {
                return (keyword_seen && token.is_word()).then(|| token.text.clone());
            }
            keyword_seen |= is_keyword;
        }
        None
    }

    /// Returns the index after the item at `start`: after its semicolon or its braces.
    fn end_of_item(&self, start: usize) -> usize {
        let to_semicolon = ["use", "const", "static", "type"].iter().any(|k| self.is(start, k))
            && !self.is(start + 1, "fn")
            && !self.is(start + 1, "unsafe");
        let mut at = start;
        while at < self.tokens.len() {
            let token = &self.tokens[at];
            if token.is(";") {
                return at + 1;
            }
            let is_brace = token.is("{");
            let opens = is_brace || token.is("(") || token.is("[");
            at = if opens { end_of_group(self.tokens, at) } else { at + 1 };
            if is_brace && !to_semicolon {
                return at;
            }
        }
        at
    }

    /// Reads the `use` declaration at `at`. Returns the index after it.
    fn import(&mut self, module: ModuleId, at: usize, public: bool) -> usize {
        let line = self.tokens[at].line;
        let mut imports = Vec::new();
        let end = use_tree(self.tokens, at + 1, &[], &mut imports);
        for import in &imports {
            // A glob names nothing by itself; what it imports is named where it is used.
            if !public && import.name != "*" {
                let path = import.path.clone();
                self.all.modules[module].named.push(Named { path, line });
            }
        }
        self.all.modules[module].imports.extend(imports);
        end
    }

    /// Reads an `impl` block.
    fn implementation(&mut self, module: ModuleId, start: usize, end: usize) {
        let open = (start..end).find(|&at| self.is(at, "{")).unwrap_or(end);
        let header_end = (start..open).find(|&at| self.is(at, "where")).unwrap_or(open).min(open);
        let after_for = (start..header_end).find(|&at| self.is(at, "for") && !self.is(at + 1, "<"));
        let of = match after_for {
            Some(at) => self.first_path(at + 1, header_end),
            None => self.first_path(self.after_generics(start + 1), header_end),
        };
        let mut depth = 0_usize;
        for at in open..end {
            if self.is(at, "{") {
                depth += 1;
            } else if self.is(at, "}") {
                depth -= 1;
            } else if depth == 1 && self.is(at, "fn") {
                let name = self.tokens[at + 1].text.clone();
                self.all.methods.push(Method { module, of: of.clone(), name });
            }
        }
        self.code(module, start, end, Some(&of));
    }

    /// Returns the index after `<…>` at `at`, or `at` if there is none.
    fn after_generics(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for end in at..self.tokens.len() {
            if self.is(end, "<") {
                depth += 1;
            } else if self.is(end, ">") && !self.is(end - 1, "-") {
                depth -= 1;
            }
            if depth == 0 {
                return if end == at { at } else { end + 1 };
            }
        }
        at
    }

    fn first_path(&self, start: usize, end: usize) -> Vec<String> {
        (start..end).find_map(|at| self.path_at(at)).map_or_else(Vec::new, |(path, _)| path)
    }

    /// Returns the path that starts at `at`, and the index after it.
    fn path_at(&self, at: usize) -> Option<(Vec<String>, usize)> {
        let mut path = vec![self.tokens.get(at).filter(|t| t.is_word())?.text.clone()];
        let mut end = at + 1;
        while self.is(end, "::") && self.tokens.get(end + 1).is_some_and(Token::is_word) {
            path.push(self.tokens[end + 1].text.clone());
            end += 2;
        }
        Some((path, end))
    }

    /// Records the paths that the tokens from `start` to `end` name; `of` is the type of the `impl`
    /// block that they are part of.
    fn code(&mut self, module: ModuleId, start: usize, end: usize, of: Option<&[String]>) {
        let mut at = start;
        while at < end {
            if self.is(at, "use") {
                at = self.import(module, at, false);
                continue;
            }
            let Some((mut path, next)) = self.path_at(at) else {
                at += 1;
                continue;
            };
            let line = self.tokens[at].line;
            let follows_dot = at > 0 && self.is(at - 1, ".") && !(at > 1 && self.is(at - 2, "."));
            let follows_fn = at > 0 && (self.is(at - 1, "fn") || self.is(at - 1, "::"));
            let is_self = path[0] == "Self" || path[0] == "self" && path.len() == 1;
            if let Some(of) = of.filter(|of| is_self && !of.is_empty()) {
                // A method of this type, `self.name(…)` or `Self::name`, may be in another file.
                let called = (self.is(next, ".") && self.is(next + 2, "("))
                    .then(|| self.tokens[next + 1].text.clone());
                let name = if path.len() > 1 { Some(path[1].clone()) } else { called };
                path = of.iter().cloned().chain(name).collect();
            }
            let is_item = path.len() > 1
                || path[0].starts_with(char::is_uppercase)
                || self.is(next, "(")
                || self.is(next, "!");
            if is_item && !follows_dot && !follows_fn {
                self.all.modules[module].named.push(Named { path, line });
            }
            at = next;
        }
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }
}

/// Reads the use tree at `at` below `prefix`. Returns the index after it and after the comma or
/// semicolon that ends it.
pub fn use_tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    imports: &mut Vec<Import>,
) -> usize {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|t| t.is(text));
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut is_list = false;
    while at < tokens.len() && !is(at, ";") && !is(at, ",") && !is(at, "}") {
        if is(at, "{") {
            is_list = true;
            let end = end_of_group(tokens, at) - 1;
            at += 1;
            while at < end {
                at = use_tree(tokens, at, &path, imports);
            }
        } else if is(at, "as") {
            name = Some(tokens[at + 1].text.clone());
            at += 1;
        } else if is(at, "*") {
            name = Some("*".to_string());
        } else if is(at, "self") && !path.is_empty() {
            // `a::{self}` is `a`.
        } else if tokens[at].is_word() {
            path.push(tokens[at].text.clone());
        }
        at += 1;
    }
    if !is_list && let Some(last) = path.last() {
        imports.push(Import { name: name.unwrap_or_else(|| last.clone()), path });
    }
    at + usize::from(!is(at, "}"))
}

//! Resolves the paths of a crate to the files that define their items.

use std::collections::BTreeMap;

use crate::crates::{Crate, FileId, Module, ModuleId, Name, Reference, ReferenceKind};

/// The place where a file first names an item of another file.
#[derive(Clone)]
pub(crate) struct Place {
    /// Line in the file that names the item, from 1.
    pub(crate) line: usize,
    /// The path as written.
    pub(crate) path: String,
}

/// All arrows of a crate, with the first place of each.
pub(crate) type Arrows = BTreeMap<(FileId, FileId), Place>;

/// The meaning of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Module(ModuleId),
    Item(FileId),
}

impl Crate {
    /// The arrows between the files of this crate.
    pub(crate) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (id, module) in self.modules.iter().enumerate() {
            for reference in &module.references {
                for to in self.files_named(id, reference) {
                    let place = Place { line: reference.line, path: reference.path.join("::") };
                    let first = arrows.entry((module.file, to)).or_insert_with(|| place.clone());
                    if place.line < first.line {
                        *first = place;
                    }
                }
            }
        }
        arrows
    }

    /// The files to which a module's file has an arrow because of a reference in that module.
    fn files_named(&self, from: ModuleId, reference: &Reference) -> impl Iterator<Item = FileId> {
        let own = self.modules[from].file;
        let files =
            self.resolve(from, &reference.path, &mut Vec::new()).into_iter().filter_map(|target| match target {
                Target::Item(file) => Some(file),
                Target::Module(module) => (reference.kind == ReferenceKind::Glob).then(|| self.modules[module].file),
            });
        let is_below = move |file: FileId| self.files[file].module.starts_with(&self.files[own].module);
        files.filter(move |&file| file != own && !(reference.kind == ReferenceKind::ReExport && is_below(file)))
    }

    /// The meaning of `path` in a module. `open` holds the names that are being looked up, to stop at imports in a
    /// circle.
    fn resolve<'a>(&'a self, from: ModuleId, path: &'a [String], open: &mut Vec<(ModuleId, &'a str)>) -> Vec<Target> {
        let mut targets = Vec::new();
        for (position, segment) in path.iter().enumerate() {
            targets = match (segment.as_str(), targets.as_slice()) {
                ("crate", _) => vec![Target::Module(0)],
                ("self", []) => vec![Target::Module(from)],
                ("super", [Target::Module(module)]) => self.parent(*module),
                ("super", _) => self.parent(from),
                (name, _) if position == 0 => self.look_up(from, name, open),
                (name, known) => known.iter().flat_map(|target| self.member(*target, name, open)).collect(),
            };
        }
        targets
    }

    fn parent(&self, module: ModuleId) -> Vec<Target> {
        self.modules[module].parent.map(Target::Module).into_iter().collect()
    }

    /// The meaning of `name` in `target`. Members of an item are defined with the item.
    fn member<'a>(&'a self, target: Target, name: &'a str, open: &mut Vec<(ModuleId, &'a str)>) -> Vec<Target> {
        let Target::Module(module) = target else { return vec![target] };
        let found = self.look_up(module, name, open);
        if !found.is_empty() {
            return found;
        }
        let Module { calls_macro, globs, file, .. } = &self.modules[module];
        let may_define = *calls_macro || globs.iter().any(|path| self.is_foreign(module, path));
        may_define.then_some(Target::Item(*file)).into_iter().collect()
    }

    /// Whether an imported path begins with the name of another crate.
    fn is_foreign(&self, module: ModuleId, path: &[String]) -> bool {
        let is_own = |name: &String| matches!(name.as_str(), "crate" | "self" | "super");
        path.first().is_some_and(|first| !is_own(first) && !self.modules[module].names.contains_key(first))
    }

    fn look_up<'a>(&'a self, module: ModuleId, name: &'a str, open: &mut Vec<(ModuleId, &'a str)>) -> Vec<Target> {
        if open.contains(&(module, name)) {
            return Vec::new();
        }
        open.push((module, name));
        let mut found = Vec::new();
        let own = self.modules[module].names.get(name);
        for name in own.into_iter().flatten() {
            match name {
                Name::Module(child) => found.push(Target::Module(*child)),
                Name::Item => found.push(Target::Item(self.modules[module].file)),
                Name::Use(path) if self.is_foreign(module, path) => found.push(Target::Item(self.modules[module].file)),
                Name::Use(path) => found.extend(self.resolve(module, path, open)),
            }
        }
        if own.is_none() {
            for glob in &self.modules[module].globs {
                for target in self.resolve(module, glob, open) {
                    if let Target::Module(target) = target {
                        found.extend(self.look_up(target, name, open));
                    }
                }
            }
        }
        open.pop();
        found
    }
}

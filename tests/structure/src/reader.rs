//! Reads a crate: follows `mod` from the root file and collects names and paths.

use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, Meta, Token, UseTree, Visibility};

use crate::crates::{Crate, File, Module, ModuleId, Name, Reference, ReferenceKind, StructureError, read};

impl Crate {
    /// Reads the crate with the given root file.
    pub(crate) fn read(root: &Path) -> Result<Self, StructureError> {
        let mut krate = Self::default();
        krate.read_file(root, None, Vec::new(), root.parent().unwrap_or(Path::new("")))?;
        Ok(krate)
    }

    /// Reads a file as the body of a new module, `children` being the folder of the module's own modules.
    fn read_file(
        &mut self,
        path: &Path,
        parent: Option<ModuleId>,
        module: Vec<String>,
        children: &Path,
    ) -> Result<ModuleId, StructureError> {
        let syntax =
            syn::parse_file(&read(path)?).map_err(|source| StructureError::Parse { path: path.into(), source })?;
        self.files.push(File { path: path.into(), module: module.clone() });
        let id = self.add_module(parent, self.files.len() - 1);
        let mut reader = Reader { krate: self, id, module, folder: children.into(), error: None };
        reader.visit_file(&syntax);
        reader.error.map_or(Ok(id), Err)
    }

    fn add_module(&mut self, parent: Option<ModuleId>, file: usize) -> ModuleId {
        let (names, globs, references) = Default::default();
        self.modules.push(Module { parent, file, names, globs, calls_macro: false, references });
        self.modules.len() - 1
    }

    fn name(&mut self, module: ModuleId, ident: &Ident, name: Name) {
        self.modules[module].names.entry(text(ident)).or_default().push(name);
    }
}

/// Visits one module.
struct Reader<'a> {
    krate: &'a mut Crate,
    id: ModuleId,
    module: Vec<String>,
    /// The folder of the files of the module's modules.
    folder: PathBuf,
    /// The first error, as a visit cannot return one.
    error: Option<StructureError>,
}

impl Reader<'_> {
    fn refer(&mut self, path: Vec<String>, span: Span, kind: ReferenceKind) {
        self.krate.modules[self.id].references.push(Reference { path, line: span.start().line, kind });
    }

    fn read_module(&mut self, item: &syn::ItemMod) -> Result<(), StructureError> {
        let name = text(&item.ident);
        let mut module = self.module.clone();
        module.push(name.clone());
        let child = if let Some((_, items)) = &item.content {
            let file = self.krate.modules[self.id].file;
            let id = self.krate.add_module(Some(self.id), file);
            let mut reader = Reader { krate: self.krate, id, module, folder: self.folder.join(name), error: None };
            items.iter().for_each(|item| reader.visit_item(item));
            if let Some(error) = reader.error {
                return Err(error);
            }
            id
        } else {
            let (own, children) = self.place(&name);
            self.krate.read_file(&own, Some(self.id), module, &children)?
        };
        self.krate.name(self.id, &item.ident, Name::Module(child));
        Ok(())
    }

    /// The file of the module `name`, and the folder of that module's own modules. `#[path]` is not supported.
    fn place(&self, name: &str) -> (PathBuf, PathBuf) {
        let folder = self.folder.join(name);
        let own = self.folder.join(format!("{name}.rs"));
        if own.exists() { (own, folder) } else { (folder.join("mod.rs"), folder) }
    }

    fn read_use(&mut self, tree: &UseTree, mut path: Vec<String>, kind: ReferenceKind) {
        let (ident, alias) = match tree {
            UseTree::Path(tree) => {
                path.push(text(&tree.ident));
                return self.read_use(&tree.tree, path, kind);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.read_use(tree, path.clone(), kind));
            }
            UseTree::Glob(glob) => {
                self.krate.modules[self.id].globs.push(path.clone());
                return self.refer(path, glob.star_token.spans[0], ReferenceKind::Glob);
            }
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(name) => (&name.ident, &name.rename),
        };
        let alias = if ident == "self" && ident == alias { path.last().cloned() } else { Some(text(alias)) };
        if ident != "self" || path.is_empty() {
            path.push(text(ident));
        }
        self.refer(path.clone(), ident.span(), kind);
        let names = &mut self.krate.modules[self.id].names;
        names.entry(alias.unwrap_or_default()).or_default().push(Name::Use(path));
    }

    /// Collects paths from tokens that are not parsed: `a::b::c`, alone or in a string.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Option<(Vec<String>, Span)> = None;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => match &mut path {
                    Some((segments, _)) if colons == 2 => segments.push(text(&ident)),
                    _ => self.end_path(path.replace((vec![text(&ident)], ident.span()))),
                },
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Punct(_) => self.end_path(path.take()),
                TokenTree::Group(group) => {
                    self.end_path(path.take());
                    self.read_tokens(group.stream());
                }
                TokenTree::Literal(literal) => {
                    self.end_path(path.take());
                    let words = literal.to_string();
                    match syn::parse_str::<syn::Path>(words.trim_matches('"')) {
                        Ok(path) if path.segments.len() > 1 => {
                            self.refer(segments(&path), literal.span(), ReferenceKind::Plain)
                        }
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
        self.end_path(path);
    }

    fn end_path(&mut self, path: Option<(Vec<String>, Span)>) {
        if let Some((path, span)) = path {
            self.refer(path, span, ReferenceKind::Plain);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, ident) = outline(item);
        if is_test_only(attributes) {
            return;
        }
        match item {
            Item::Mod(module) => {
                if let Err(error) = self.read_module(module) {
                    self.error.get_or_insert(error);
                }
                return;
            }
            Item::Use(item) if item.leading_colon.is_none() => {
                let is_private = matches!(item.vis, Visibility::Inherited);
                let kind = if is_private { ReferenceKind::Plain } else { ReferenceKind::ReExport };
                return self.read_use(&item.tree, Vec::new(), kind);
            }
            Item::Macro(item) if item.ident.is_none() => self.krate.modules[self.id].calls_macro = true,
            Item::Macro(item) if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) => {
                let ident = item.ident.as_ref().expect("a definition has a name");
                let path = self.module.iter().cloned().chain([text(ident)]);
                if !self.module.is_empty() {
                    let path = ["crate".to_owned()].into_iter().chain(path).collect();
                    self.krate.name(0, ident, Name::Use(path));
                }
            }
            _ => {}
        }
        if let Some(ident) = ident {
            self.krate.name(self.id, ident, Name::Item);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.refer(segments(path), path.segments[0].ident.span(), ReferenceKind::Plain);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
    }
}

/// An item's attributes, and the name that it defines.
fn outline(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

fn text(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| text(&segment.ident)).collect()
}

fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg") && attribute.parse_args().is_ok_and(|meta| holds(&meta) == Some(false))
    })
}

/// Whether a `cfg` predicate holds outside tests. `None` if that depends on something else.
fn holds(meta: &Meta) -> Option<bool> {
    let list = match meta {
        Meta::Path(path) => return path.is_ident("test").then_some(false),
        Meta::NameValue(_) => return None,
        Meta::List(list) => list,
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut parts = parts.iter().map(holds);
    if list.path.is_ident("not") {
        return parts.next()?.map(|holds| !holds);
    }
    // One part with this value decides alone.
    let decisive = list.path.is_ident("any");
    let parts: Vec<_> = parts.collect();
    if parts.contains(&Some(decisive)) {
        return Some(decisive);
    }
    if parts.contains(&None) { None } else { Some(!decisive) }
}

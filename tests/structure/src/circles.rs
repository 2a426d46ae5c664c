//! Finds circles in a crate's arrows, and the places where they can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use petgraph::algo::{astar, tarjan_scc};
use petgraph::graphmap::{DiGraphMap, NodeTrait};

use crate::crates::{Crate, FileId};
use crate::names::Arrows;

/// Most files that may form a circle.
const FILES_MAX: usize = 3;
/// Places printed for an arrow between two folders.
const PLACES_MAX: usize = 5;

/// Describes each group of more than [`FILES_MAX`] files that all reach each other.
pub(crate) fn between_files(krate: &Crate, root: &Path) -> Vec<String> {
    let arrows = krate.arrows();
    let graph = DiGraphMap::<FileId, ()>::from_edges(arrows.keys());
    let mut groups: Vec<_> = tarjan_scc(&graph).into_iter().filter(|group| group.len() > FILES_MAX).collect();
    groups.iter_mut().for_each(|group| group.sort());
    groups.iter().map(|group| describe_files(krate, root, &arrows, &graph, group)).collect()
}

/// Lists shortest circles until each file of the group is in one.
fn describe_files(
    krate: &Crate,
    root: &Path,
    arrows: &Arrows,
    graph: &DiGraphMap<FileId, ()>,
    group: &[FileId],
) -> String {
    let mut text = format!("{} files are in one circle:", group.len());
    let mut left: BTreeSet<_> = group.iter().copied().collect();
    while let Some(&file) = left.first() {
        let circle = shortest_circle(graph, file, graph.neighbors(file));
        left.retain(|file| !circle.contains(file));
        for hop in circle.windows(2) {
            let _ = write!(text, "\n    {}", place(krate, root, arrows, (hop[0], hop[1])));
        }
        text.push('\n');
    }
    text
}

/// The shortest way from `node` through one of `others` back to `node`. It starts and ends with `node`.
fn shortest_circle<N: NodeTrait>(graph: &DiGraphMap<N, ()>, node: N, others: impl Iterator<Item = N>) -> Vec<N> {
    let way = |from, to| astar(graph, from, |at| at == to, |_| 1, |_| 0).map(|(_, way)| way);
    let circles = others.filter_map(|other| Some([way(node, other)?, way(other, node)?[1..].to_vec()].concat()));
    circles.min_by_key(Vec::len).unwrap_or_default()
}

fn place(krate: &Crate, root: &Path, arrows: &Arrows, (from, to): (FileId, FileId)) -> String {
    let name = |file: FileId| {
        let path = &krate.files[file].path;
        path.strip_prefix(root).unwrap_or(path).display()
    };
    let place = &arrows[&(from, to)];
    format!("{}:{} -> {} ({})", name(from), place.line, name(to), place.path)
}

/// The modules with the same parent, by name, and the arrows from the files of one to the files of another.
type Level<'a> = BTreeMap<(&'a str, &'a str), Vec<(FileId, FileId)>>;

/// Describes each circle between modules with the same parent of which at least two are folders.
///
/// The parent's own file contains all of them. It may use its modules and they may use its items.
pub(crate) fn between_folders(krate: &Crate, root: &Path) -> Vec<String> {
    let arrows = krate.arrows();
    let mut levels: BTreeMap<&[String], Level> = BTreeMap::new();
    for &(from, to) in arrows.keys() {
        let (from_module, to_module) = (&krate.files[from].module, &krate.files[to].module);
        let common = from_module.iter().zip(to_module).take_while(|(a, b)| a == b).count();
        if let (Some(a), Some(b)) = (from_module.get(common), to_module.get(common)) {
            levels.entry(&from_module[..common]).or_default().entry((a, b)).or_default().push((from, to));
        }
    }
    let mut texts = Vec::new();
    for (parent, level) in &levels {
        let graph = DiGraphMap::<&str, ()>::from_edges(level.keys());
        for group in tarjan_scc(&graph) {
            let folders: BTreeSet<_> = group.into_iter().filter(|name| is_folder(krate, parent, name)).collect();
            let mut left = folders.clone();
            while folders.len() > 1
                && let Some(folder) = left.pop_first()
            {
                let circle = shortest_circle(&graph, folder, folders.iter().copied().filter(|other| *other != folder));
                left.retain(|folder| !circle.contains(folder));
                texts.push(describe_folders(krate, root, &arrows, parent, level, &circle));
            }
        }
    }
    texts
}

/// Whether the module `name` of `parent` has files besides its own.
fn is_folder(krate: &Crate, parent: &[String], name: &str) -> bool {
    let inside =
        |module: &[String]| module.starts_with(parent) && module.get(parent.len()).is_some_and(|at| at == name);
    krate.files.iter().filter(|file| inside(&file.module)).count() > 1
}

fn describe_folders(
    krate: &Crate,
    root: &Path,
    arrows: &Arrows,
    parent: &[String],
    level: &Level,
    circle: &[&str],
) -> String {
    let path = |name: &&str| parent.iter().map(String::as_str).chain([*name]).collect::<Vec<_>>().join("::");
    let names: Vec<_> = circle.iter().map(path).collect();
    let mut text = format!("folders are in a circle: {}", names.join(" -> "));
    for hop in circle.windows(2) {
        let all = &level[&(hop[0], hop[1])];
        for arrow in all.iter().take(PLACES_MAX) {
            let _ = write!(text, "\n    {}", place(krate, root, arrows, *arrow));
        }
        if all.len() > PLACES_MAX {
            let _ = write!(text, "\n    and {} more from {} to {}", all.len() - PLACES_MAX, hop[0], hop[1]);
        }
        text.push('\n');
    }
    text
}

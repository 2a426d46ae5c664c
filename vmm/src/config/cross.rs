//! Checks that need more than the schema: CPUs of this host, images that exist, names that differ.
//!
//! Works on the document as written, beside [`super::check`], so that both kinds of mistakes are reported together;
//! whatever has a wrong type here is left to the other one.

use std::collections::HashMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::LoadContext;
use super::check::{integer, list, nearest};
use super::defaults;
use super::error::{Finding, Misplaced};
use super::keypath::KeyPath;
use super::types::instance_names;
use super::values::ImageRef;
use crate::host::CpuList;

/// Notes every value of `document` that this host, or another part of the file, contradicts. Relative image paths
/// start at `base`.
pub(super) fn check(document: &DeTable<'_>, base: &Path, context: &LoadContext<'_>) -> Vec<Misplaced> {
    let mut found = Vec::new();
    let root = KeyPath::default();
    if let Some(DeValue::Array(cpus)) = document.get("host").and_then(|host| host.get_ref().get("pcpus")).map(inner) {
        let path = root.key("host").key("pcpus");
        let items = cpus.iter().enumerate();
        found.extend(items.filter_map(|(index, item)| pcpu(item, context, path.index(index))));
    }
    let vms = document.get("vm").and_then(|vms| vms.get_ref().as_array()).into_iter().flat_map(|vms| vms.iter());
    let mut names = HashMap::new();
    for (index, vm) in vms.enumerate() {
        let path = root.key("vm").index(index);
        if let Some(vm) = vm.get_ref().as_table() {
            found.extend(image(vm, base, context, &path));
            found.extend(name(vm, &path, &mut names));
        }
    }
    found
}

fn inner<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> &'a DeValue<'i> {
    value.get_ref()
}

fn pcpu(item: &Spanned<DeValue<'_>>, context: &LoadContext<'_>, path: KeyPath) -> Option<Misplaced> {
    let cpu = u32::try_from(integer(item.get_ref())?).ok().filter(|cpu| *cpu <= CpuList::CPU_MAX)?;
    if context.pcpus_available.contains(cpu) {
        return None;
    }
    let finding = Finding {
        wrong: format!("this process may not use a CPU {cpu}"),
        label: "no such CPU".to_owned(),
        help: Some(format!("accepted: {}", context.pcpus_available)),
    };
    Some(Misplaced { key: path, span: item.span(), finding })
}

fn image(vm: &DeTable<'_>, base: &Path, context: &LoadContext<'_>, path: &KeyPath) -> Option<Misplaced> {
    let value = vm.get("image")?;
    let finding = match value.get_ref().as_str()?.parse::<ImageRef>().ok()?.relative_to(base) {
        ImageRef::Builtin(name) if !context.builtin_names.contains(&name.as_str()) => {
            let known = context.builtin_names.iter().copied();
            let meant = nearest(&name, known.clone()).map(|name| format!("did you mean `builtin:{name}`? "));
            Finding {
                wrong: format!("there is no built-in image `{}`", name.escape_debug()),
                label: "unknown image".to_owned(),
                help: Some(format!("{}accepted after builtin: {}", meant.unwrap_or_default(), list(known))),
            }
        }
        ImageRef::Path(file) if !file.is_file() => {
            let state = if file.exists() { "is not a file" } else { "does not exist" };
            Finding {
                wrong: format!("the image {} {state}", file.display()),
                label: "no image here".to_owned(),
                help: Some("accepted: builtin:NAME, or the path of an image relative to this file".to_owned()),
            }
        }
        _ => return None,
    };
    Some(Misplaced { key: path.key("image"), span: value.span(), finding })
}

/// Enters the names of `vm`'s copies into `names` (name to the VM's path) and notes the first that is there already.
fn name(vm: &DeTable<'_>, path: &KeyPath, names: &mut HashMap<String, KeyPath>) -> Option<Misplaced> {
    let value = vm.get("name")?;
    let count = vm.get("count").map_or(Some(defaults::COUNT.into()), |count| integer(count.get_ref()))?;
    // An excessive count is a mistake of its own; it must not make this loop long.
    let count = u32::try_from(count).ok().filter(|count| *count <= defaults::COUNT_MAX)?;
    let mut clash = None;
    for name in instance_names(value.get_ref().as_str()?, count) {
        match names.get(&name) {
            Some(other) if clash.is_none() => clash = Some((name, other.clone())),
            Some(_) => {}
            None => drop(names.insert(name, path.clone())),
        }
    }
    let (name, other) = clash?;
    let finding = Finding {
        wrong: format!("the name `{name}` is taken by {other}"),
        label: "taken".to_owned(),
        help: Some("accepted: a name that no other VM has; copies of a VM are called NAME-0, NAME-1 ...".to_owned()),
    };
    Some(Misplaced { key: path.key("name"), span: value.span(), finding })
}

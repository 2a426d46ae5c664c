//! The rows of the table: filtered, sorted, with the vCPUs of expanded VMs, and one of them selected.

use std::cmp::Ordering;
use stile_api::{Frame, VcpuFigures, VmFigures};

use super::App;
use crate::column::{Column, Subject, Value};

/// A VM, or a vCPU below its VM.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) vm: &'a VmFigures,
    pub(crate) vcpu: Option<&'a VcpuFigures>,
    /// The pCPU that the vCPU has.
    pub(crate) cpu: Option<u32>,
    seconds: Option<f64>,
}

/// What makes a row the same one in the next frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowId {
    pub(crate) vm: String,
    pub(crate) vcpu: Option<u32>,
}

impl<'a> Row<'a> {
    /// What the columns show.
    pub(crate) fn subject(&self) -> Subject<'a> {
        match self.vcpu {
            None => Subject { vm: Some(self.vm), figures: &self.vm.figures, seconds: self.seconds },
            Some(vcpu) => Subject { vm: None, figures: &vcpu.figures, seconds: self.seconds },
        }
    }

    fn is(&self, id: &RowId) -> bool {
        self.vm.name == id.vm && self.vcpu.map(|vcpu| vcpu.index) == id.vcpu
    }

    fn id(&self) -> RowId {
        RowId { vm: self.vm.name.clone(), vcpu: self.vcpu.map(|vcpu| vcpu.index) }
    }
}

impl App {
    /// The rows in order.
    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        let Some(frame) = &self.frame else { return Vec::new() };
        let wanted = self.filter.to_lowercase();
        let mut vms: Vec<&VmFigures> = frame.vms.iter().filter(|vm| vm.name.to_lowercase().contains(&wanted)).collect();
        vms.sort_by(|a, b| self.order(frame, a, b).then_with(|| a.name.cmp(&b.name)));
        vms.iter().flat_map(|vm| self.rows_of(frame, vm)).collect()
    }

    /// Where the selected row is.
    pub(crate) fn selected_place(&self, rows: &[Row<'_>]) -> Option<usize> {
        self.selected.as_ref().and_then(|id| rows.iter().position(|row| row.is(id)))
    }

    /// The VM of the selected row.
    pub(crate) fn selected_vm(&self) -> Option<&VmFigures> {
        let rows = self.rows();
        self.selected_place(&rows).map(|place| rows[place].vm)
    }

    /// Whether the vCPUs of a VM have rows.
    pub(crate) fn is_expanded(&self, vm: &str) -> bool {
        self.expanded.contains(vm)
    }

    /// Moves the selection by this many rows, as far as there are any.
    pub(crate) fn move_selection(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let from = self.selected_place(&rows).unwrap_or_default();
        let to = from.saturating_add_signed(by).min(last);
        let id = rows[to].id();
        (self.place, self.selected) = (to, Some(id));
    }

    /// Expands a VM, or hides its vCPUs.
    pub(crate) fn expand(&mut self, vm: &str, is_expanded: bool) {
        if is_expanded {
            self.expanded.insert(vm.to_owned());
        } else {
            self.expanded.remove(vm);
        }
        self.keep_selection();
    }

    /// Selects another row if the selected one is gone: its VM's, else the one that is at its place now.
    pub(crate) fn keep_selection(&mut self) {
        let rows = self.rows();
        let of_vm = self.selected.as_ref().map(|id| RowId { vm: id.vm.clone(), vcpu: None });
        let place = self
            .selected_place(&rows)
            .or_else(|| rows.iter().position(|row| of_vm.as_ref().is_some_and(|id| row.is(id))))
            .or_else(|| rows.len().checked_sub(1).map(|last| self.place.min(last)));
        let id = place.map(|place| rows[place].id());
        self.place = place.unwrap_or_default();
        self.selected = id;
    }

    fn rows_of<'a>(&self, frame: &'a Frame, vm: &'a VmFigures) -> impl Iterator<Item = Row<'a>> {
        let seconds = frame.seconds;
        let vcpus: &[VcpuFigures] = if self.is_expanded(&vm.name) { &vm.vcpus } else { &[] };
        let vcpus = vcpus.iter().map(move |vcpu| {
            let name = format!("{}/{}", vm.name, vcpu.index);
            let has = frame.pcpus.iter().find(|pcpu| pcpu.vcpu.as_ref() == Some(&name));
            Row { vm, vcpu: Some(vcpu), cpu: has.map(|pcpu| pcpu.cpu), seconds }
        });
        [Row { vm, vcpu: None, cpu: None, seconds }].into_iter().chain(vcpus)
    }

    /// The order of two VMs. What is not known comes last, either way round.
    fn order(&self, frame: &Frame, a: &VmFigures, b: &VmFigures) -> Ordering {
        let of = |vm: &VmFigures, column: Column| {
            let subject = Subject { vm: Some(vm), figures: &vm.figures, seconds: frame.seconds };
            column.value(&subject).map(|value| match value {
                Value::Text(text) => (Some(text.to_owned()), 0.0),
                Value::Number(number) => (None, number),
            })
        };
        let column = self.sorting.column;
        let (a, b) = match (of(a, column), of(b, column)) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => return a.is_none().cmp(&b.is_none()),
        };
        let order = a.0.cmp(&b.0).then_with(|| b.1.total_cmp(&a.1));
        if self.sorting.is_reversed { order.reverse() } else { order }
    }
}

//! The labels of a list that is complete: one for each place, numbered from above to below,
//! and none that nothing leads to.

use crate::ir::{Label, Line, Operation};

/// `count`: of the labels so far.
pub(super) fn number(lines: &mut Vec<Line>, count: usize) {
    merge(lines, count);
    remove_idle_jumps(lines);
    remove_unused(lines, count);
    let mut numbers = vec![Label(0); count];
    let mut next = 0;
    for line in lines.iter() {
        if let Operation::Label(label) = line.operation {
            next += 1;
            numbers[place(label)] = Label(next);
        }
    }
    rename(lines, &numbers);
}

fn place(label: Label) -> usize {
    usize::from(label.0)
}

/// Of labels that stand together only the first is left.
fn merge(lines: &mut Vec<Line>, count: usize) {
    let mut first = (0..=u16::MAX).take(count).map(Label).collect::<Vec<_>>();
    let mut before = None;
    lines.retain(|line| match line.operation {
        Operation::Label(label) => {
            let stays = *before.get_or_insert(label);
            first[place(label)] = stays;
            stays == label
        }
        _ => {
            before = None;
            true
        }
    });
    rename(lines, &first);
}

fn rename(lines: &mut [Line], names: &[Label]) {
    for line in lines {
        if let Operation::Label(label) | Operation::Jump(label) | Operation::JumpIf(_, label) =
            &mut line.operation
        {
            *label = names[place(*label)];
        }
    }
}

/// A jump to the next line does nothing.
fn remove_idle_jumps(lines: &mut Vec<Line>) {
    let mut kept: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines.drain(..) {
        if let Operation::Label(label) = line.operation
            && matches!(kept.last(), Some(last) if last.operation == Operation::Jump(label))
        {
            kept.pop();
        }
        kept.push(line);
    }
    *lines = kept;
}

fn remove_unused(lines: &mut Vec<Line>, count: usize) {
    let mut used = vec![false; count];
    for line in lines.iter() {
        if let Operation::Jump(label) | Operation::JumpIf(_, label) = line.operation {
            used[place(label)] = true;
        }
    }
    lines.retain(|line| match line.operation {
        Operation::Label(label) => used[place(label)],
        _ => true,
    });
}

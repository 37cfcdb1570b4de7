//! INFO tier: cold values. All but two fields are rows of `stats/rows/tier.rs`.

use super::{Page, Source};

pub(super) fn tier(page: &mut Page, source: &Source<'_>) {
    page.line("tier_enabled", i32::from(source.tier.is_some()));
    if let Some(figures) = &source.tier {
        let trouble = figures.trouble.as_deref().unwrap_or_default();
        page.line("tier_trouble", trouble);
    }
}

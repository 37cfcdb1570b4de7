//! The plots of the pages, in light and dark.
//!
//! ```text
//! charts.rs  what is shown: from tables to groups of bars
//! bars.rs    how it is drawn
//! theme.rs   colours
//! ```

mod bars;
mod charts;
mod theme;

use anyhow::{Context, Result};

use super::data::Data;
use theme::THEMES;

/// File names of all plots, and what is in them.
pub(super) fn all(data: &Data) -> Result<Vec<(String, String)>> {
    let mut plots = Vec::new();
    for chart in charts::all(data)? {
        for theme in &THEMES {
            let svg = bars::draw(&chart, theme).with_context(|| format!("plot {}", chart.name))?;
            plots.push((format!("{}-{}.svg", chart.name, theme.name), svg));
        }
    }
    Ok(plots)
}

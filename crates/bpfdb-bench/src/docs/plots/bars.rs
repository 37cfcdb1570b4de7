//! Draws groups of bars with error bars, as SVG.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::overview::with_commas;
use super::charts::{Chart, Group, Panel};
use super::theme::Theme;
use crate::report::Spread;

const WIDTH: u32 = 900;
/// Without the legend and what is below the axis.
const PANEL_HEIGHT: u32 = 310;
const MARGIN: u32 = 12;
/// Of the part of the picture that the legend takes.
const LEGEND_HEIGHT: u32 = 32;
const AXIS_WIDTH: u32 = 76;
const FONT: &str = "Helvetica, Arial, sans-serif";
const TITLE_SIZE: u32 = 16;
const TEXT_SIZE: u32 = 14;
const LINE_HEIGHT: u32 = 17;
/// From the axis to the middle of the first line below it.
const LABEL_GAP: u32 = 14;
/// From the bars to the middle of the note above them.
const NOTE_GAP: i32 = 11;
/// Of the room of a group; the rest is between the groups.
const BARS_SHARE: f64 = 0.78;
/// Half of the ends of an error bar, of the room of a group, at most.
const CAP: f64 = 0.05;
/// Between the highest bar and the upper end of the axis.
const HEADROOM: f64 = 1.14;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

pub(super) fn draw(chart: &Chart, theme: &Theme) -> Result<String> {
    let mut svg = String::new();
    {
        let legend = u32::from(!chart.series.is_empty()) * LEGEND_HEIGHT;
        let labels = chart.panels.iter().map(labels_height).max().unwrap_or(0);
        let size = (WIDTH, legend + PANEL_HEIGHT + labels);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&theme.background)?;
        let (top, below) = root.split_vertically(legend);
        draw_legend(&top, &chart.series, theme)?;
        let panels = below.split_evenly((1, chart.panels.len()));
        for (panel, area) in chart.panels.iter().zip(&panels) {
            draw_panel(panel, area, theme)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Of what is below the axis: labels of groups, and what the groups are.
fn labels_height(panel: &Panel) -> u32 {
    let lines = panel.groups.iter().map(|group| group.label.lines().count());
    let lines = lines.max().unwrap_or(0) + usize::from(!panel.groups_are.is_empty());
    LABEL_GAP + lines as u32 * LINE_HEIGHT
}

fn text(theme: &Theme, size: u32, horizontal: HPos) -> TextStyle<'static> {
    (FONT, size)
        .into_font()
        .color(&theme.text)
        .pos(Pos::new(horizontal, VPos::Center))
}

/// A square and a name for each series, from the left.
fn draw_legend(area: &Area<'_>, series: &[String], theme: &Theme) -> Result<()> {
    const SQUARE: i32 = 13;
    /// Of a letter, about.
    const LETTER: i32 = 8;
    let style = text(theme, TEXT_SIZE, HPos::Left);
    let (mut left, middle) = (
        AXIS_WIDTH as i32 + MARGIN as i32,
        LEGEND_HEIGHT as i32 / 2 + 4,
    );
    for (name, colour) in series.iter().zip(&theme.series) {
        let corners = [
            (left, middle - SQUARE / 2),
            (left + SQUARE, middle + SQUARE / 2),
        ];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        left += SQUARE + 7;
        area.draw(&Text::new(name.as_str(), (left, middle), style.clone()))?;
        left += name.chars().count() as i32 * LETTER + 24;
    }
    Ok(())
}

fn draw_panel(panel: &Panel, area: &Area<'_>, theme: &Theme) -> Result<()> {
    let mut plane = ChartBuilder::on(area)
        .margin(MARGIN)
        .caption(
            panel.title,
            (FONT, TITLE_SIZE).into_font().color(&theme.text),
        )
        .x_label_area_size(labels_height(panel))
        .y_label_area_size(AXIS_WIDTH - MARGIN)
        .build_cartesian_2d(0.0..panel.groups.len() as f64, 0.0..highest(panel))?;
    plane
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(6)
        .y_label_formatter(&|figure| with_commas(*figure))
        .y_desc(panel.axis)
        .axis_desc_style(text(theme, TEXT_SIZE, HPos::Center))
        .label_style((FONT, TEXT_SIZE).into_font().color(&theme.text))
        .axis_style(theme.text)
        .bold_line_style(theme.grid)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (number, group) in panel.groups.iter().enumerate() {
        draw_group(&mut plane, group, number as f64, theme)?;
        draw_labels(&plane, area, group, number as f64 + 0.5, theme)?;
    }
    let (middle, bottom) = plane.backend_coord(&(panel.groups.len() as f64 / 2.0, 0.0));
    let (left, upper) = area.get_base_pixel();
    let below = (
        middle - left,
        bottom - upper + (labels_height(panel) - LINE_HEIGHT / 2) as i32,
    );
    area.draw(&Text::new(
        panel.groups_are,
        below,
        text(theme, TEXT_SIZE, HPos::Center),
    ))?;
    Ok(())
}

/// Upper end of the axis.
fn highest(panel: &Panel) -> f64 {
    let bars = panel.groups.iter().flat_map(|group| &group.bars);
    bars.map(|bar| bar.max).fold(0.0, f64::max) * HEADROOM
}

/// Its bars, side by side, between `left` and `left` + 1.
fn draw_group(plane: &mut Plane<'_, '_>, group: &Group, left: f64, theme: &Theme) -> Result<()> {
    let width = BARS_SHARE / group.bars.len() as f64;
    let cap = CAP.min(width / 5.0);
    for (number, (bar, colour)) in group.bars.iter().zip(&theme.series).enumerate() {
        let left = left + (1.0 - BARS_SHARE) / 2.0 + width * number as f64;
        let corners = [(left, 0.0), (left + width, bar.median)];
        let bar_area = Rectangle::new(corners, colour.filled());
        plane.plotting_area().draw(&bar_area)?;
        if bar.min < bar.max {
            draw_error_bar(plane, bar, left + width / 2.0, cap, theme)?;
        }
    }
    Ok(())
}

/// From the lowest round to the highest: thin lines, with a seam so that they are seen on
/// every colour.
fn draw_error_bar(
    plane: &mut Plane<'_, '_>,
    bar: &Spread,
    x: f64,
    cap: f64,
    theme: &Theme,
) -> Result<()> {
    let lines = [
        [(x, bar.min), (x, bar.max)],
        [(x - cap, bar.min), (x + cap, bar.min)],
        [(x - cap, bar.max), (x + cap, bar.max)],
    ];
    for (colour, width) in [(theme.background, 3), (theme.text, 1)] {
        for line in lines {
            let line = PathElement::new(line, colour.stroke_width(width));
            plane.plotting_area().draw(&line)?;
        }
    }
    Ok(())
}

/// What the group is, below it, and its note, above it.
fn draw_labels(
    plane: &Plane<'_, '_>,
    area: &Area<'_>,
    group: &Group,
    middle: f64,
    theme: &Theme,
) -> Result<()> {
    let style = text(theme, TEXT_SIZE, HPos::Center);
    let (left, upper) = area.get_base_pixel();
    let (x, bottom) = plane.backend_coord(&(middle, 0.0));
    for (number, line) in group.label.lines().enumerate() {
        let below = (LABEL_GAP + number as u32 * LINE_HEIGHT) as i32;
        let place = (x - left, bottom - upper + below);
        area.draw(&Text::new(line, place, style.clone()))?;
    }
    let highest = group.bars.iter().map(|bar| bar.max).fold(0.0, f64::max);
    let (_, top) = plane.backend_coord(&(middle, highest));
    let place = (x - left, top - upper - NOTE_GAP);
    area.draw(&Text::new(group.note.as_str(), place, style))?;
    Ok(())
}

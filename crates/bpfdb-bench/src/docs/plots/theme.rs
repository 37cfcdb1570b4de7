//! Colours.

use plotters::style::RGBColor;

pub(super) struct Theme {
    pub(super) name: &'static str,
    pub(super) background: RGBColor,
    pub(super) text: RGBColor,
    pub(super) grid: RGBColor,
    /// Of the first, the second … bar of a group. Told apart with every kind of colour
    /// blindness, and as greys: after M. Okabe and K. Ito, "Color Universal Design".
    pub(super) series: [RGBColor; 3],
}

pub(super) const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        background: RGBColor(0xff, 0xff, 0xff),
        text: RGBColor(0x1f, 0x23, 0x28),
        grid: RGBColor(0xd8, 0xde, 0xe4),
        series: [
            RGBColor(0x00, 0x72, 0xb2),
            RGBColor(0xe6, 0x9f, 0x00),
            RGBColor(0xcc, 0x79, 0xa7),
        ],
    },
    Theme {
        name: "dark",
        background: RGBColor(0x0d, 0x11, 0x17),
        text: RGBColor(0xe6, 0xed, 0xf3),
        grid: RGBColor(0x30, 0x36, 0x3d),
        series: [
            RGBColor(0x56, 0xb4, 0xe9),
            RGBColor(0xe6, 0x9f, 0x00),
            RGBColor(0xcc, 0x79, 0xa7),
        ],
    },
];

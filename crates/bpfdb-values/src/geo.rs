//! Places on Earth as scores of sorted sets, with the arithmetic of Redis, step by step, so that scores and
//! distances agree to the last digit.
//!
//! A place is a cell of a grid of 2^26 by 2^26 cells: longitude -180 to 180, latitude as far as the
//! square web map (EPSG:3857) goes. Its score has 52 bits, those of latitude and longitude in turn; the
//! bits before any pair of them name a larger cell, whose places are a range of scores.

/// Degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub longitude: f64,
    pub latitude: f64,
}

/// Degrees from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    min: f64,
    max: f64,
}

const LONGITUDES: Span = Span {
    min: -180.0,
    max: 180.0,
};
/// Those of the web map.
const LATITUDES: Span = Span {
    min: -85.051_128_78,
    max: 85.051_128_78,
};
/// Those of geohashes as others write them.
const ALL_LATITUDES: Span = Span {
    min: -90.0,
    max: 90.0,
};

/// Bits of a coordinate.
const STEPS: u32 = 26;
/// Metres; the quadratic mean of the radius (WGS 84).
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Metres from the centre of the web map to its edge.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// Of latitude, which comes first.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
const LONGITUDE_BITS: u64 = !LATITUDE_BITS;

impl Place {
    /// Is it on the map?
    pub fn is_valid(self) -> bool {
        (LONGITUDES.min..=LONGITUDES.max).contains(&self.longitude)
            && (LATITUDES.min..=LATITUDES.max).contains(&self.latitude)
    }

    /// The score of a valid one.
    pub fn score(self) -> f64 {
        Cell::of(self, LATITUDES, STEPS).bits as f64
    }

    /// The middle of the cell that a score names.
    pub fn of_score(score: f64) -> Self {
        // As the processor converts it for C.
        let bits = if score < 9_223_372_036_854_775_808.0 {
            score as i64 as u64
        } else {
            score as u64
        };
        let (longitude, latitude) = Cell { bits, steps: STEPS }.spans();
        Self {
            longitude: middle(longitude, LONGITUDES),
            latitude: middle(latitude, LATITUDES),
        }
    }

    /// Its geohash in letters, eleven of them; the last one is always 0, for want of bits.
    pub fn letters(self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(self, ALL_LATITUDES, STEPS).bits;
        let whole = (1..=10).map(|letter| bits >> (2 * STEPS - 5 * letter) & 0x1f);
        whole
            .chain([0])
            .map(|index| char::from(LETTERS[index as usize]))
            .collect()
    }

    /// Metres, along a great circle.
    pub fn distance(self, other: Self) -> f64 {
        let longitudes = (other.longitude.to_radians_c() - self.longitude.to_radians_c()) / 2.0;
        let v = longitudes.sin();
        if v == 0.0 {
            return self.distance_of_latitudes(other);
        }
        let (from, to) = (self.latitude.to_radians_c(), other.latitude.to_radians_c());
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    fn distance_of_latitudes(self, other: Self) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians_c() - self.latitude.to_radians_c()).abs()
    }
}

/// By the constants of Redis: those of the standard library round otherwise.
trait Degrees {
    fn to_radians_c(self) -> f64;
    fn to_degrees_c(self) -> f64;
}

const RADIAN: f64 = std::f64::consts::PI / 180.0;

impl Degrees for f64 {
    fn to_radians_c(self) -> f64 {
        self * RADIAN
    }

    fn to_degrees_c(self) -> f64 {
        self / RADIAN
    }
}

fn middle(span: Span, most: Span) -> f64 {
    f64::midpoint(span.min, span.max).clamp(most.min, most.max)
}

/// A cell of the grid of 2^steps by 2^steps cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    steps: u32,
}

impl Cell {
    fn of(place: Place, latitudes: Span, steps: u32) -> Self {
        let cells = (1u64 << steps) as f64;
        let part = |value: f64, span: Span| (value - span.min) / (span.max - span.min) * cells;
        let latitude = part(place.latitude, latitudes) as u32;
        let longitude = part(place.longitude, LONGITUDES) as u32;
        let bits = spread(latitude) | spread(longitude) << 1;
        Self { bits, steps }
    }

    /// Longitudes and latitudes.
    fn spans(self) -> (Span, Span) {
        let cells = (1u64 << self.steps) as f64;
        let span = |index: u32, all: Span| {
            let scale = all.max - all.min;
            let edge = |index: u32| all.min + f64::from(index) / cells * scale;
            Span {
                min: edge(index),
                max: edge(index.wrapping_add(1)),
            }
        };
        let longitudes = span(gather(self.bits >> 1), LONGITUDES);
        (longitudes, span(gather(self.bits), LATITUDES))
    }

    /// The cell that is so far to the east and to the north, which is -1, 0 or 1 each.
    fn neighbour(self, east: i64, north: i64) -> Self {
        let mask = u64::MAX >> (64 - 2 * self.steps);
        let moved = |own: u64, others: u64, by: i64| match by {
            // The other coordinate's bits are set, so that a carry passes through them.
            1 => (self.bits & own).wrapping_add((others & mask).wrapping_add(1)),
            -1 => (self.bits & own | others & mask).wrapping_sub((others & mask).wrapping_add(1)),
            _ => self.bits & own,
        };
        let longitude = moved(LONGITUDE_BITS, LATITUDE_BITS, east) & LONGITUDE_BITS & mask;
        let latitude = moved(LATITUDE_BITS, LONGITUDE_BITS, north) & LATITUDE_BITS & mask;
        Self {
            bits: longitude | latitude,
            steps: self.steps,
        }
    }

    /// The least score of its places, and the least behind them.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS - self.steps);
        (
            (self.bits << shift) as f64,
            ((self.bits + 1) << shift) as f64,
        )
    }
}

/// The bits of a number, each followed by a zero.
fn spread(number: u32) -> u64 {
    const MASKS: [(u32, u64); 5] = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    MASKS.iter().fold(u64::from(number), |bits, (shift, mask)| {
        (bits | bits << shift) & mask
    })
}

/// Every second bit, from the lowest.
fn gather(bits: u64) -> u32 {
    const MASKS: [(u32, u64); 5] = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    let bits = bits & LATITUDE_BITS;
    MASKS
        .iter()
        .fold(bits, |bits, (shift, mask)| (bits | bits >> shift) & mask) as u32
}

/// What is searched, around a place; metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

impl Shape {
    /// How far a place is from the centre; `None`: it is not within.
    pub fn distance(self, centre: Place, place: Place) -> Option<f64> {
        match self {
            Self::Circle { radius } => {
                Some(centre.distance(place)).filter(|&found| found <= radius)
            }
            Self::Box { width, height } => {
                if place.distance_of_latitudes(centre) > height / 2.0 {
                    return None;
                }
                let beside = Place {
                    longitude: centre.longitude,
                    ..place
                };
                (place.distance(beside) <= width / 2.0).then(|| centre.distance(place))
            }
        }
    }

    /// Half of its width and of its height, and how far its farthest point is.
    fn extent(self) -> (f64, f64, f64) {
        match self {
            Self::Circle { radius } => (radius, radius, radius),
            Self::Box { width, height } => {
                let (width, height) = (width / 2.0, height / 2.0);
                (width, height, (width * width + height * height).sqrt())
            }
        }
    }

    /// Longitudes and latitudes.
    fn bounds(self, centre: Place) -> (Span, Span) {
        let (width, height, _) = self.extent();
        let up = (height / EARTH_RADIUS).to_degrees_c();
        // Meridians are closest at the end that is nearer to a pole.
        let narrow = if centre.latitude < 0.0 { -up } else { up };
        let parallel = (centre.latitude + narrow).to_radians_c().cos();
        let aside = (width / EARTH_RADIUS / parallel).to_degrees_c();
        let around = |middle: f64, by: f64| Span {
            min: middle - by,
            max: middle + by,
        };
        (around(centre.longitude, aside), around(centre.latitude, up))
    }

    /// Ranges of scores, from the first one and before the second, that have all places of the shape:
    /// nine cells at most, in Redis's order.
    pub fn ranges(self, centre: Place) -> Vec<(f64, f64)> {
        let bounds = self.bounds(centre);
        let (_, _, farthest) = self.extent();
        let mut cell = Cell::of(centre, LATITUDES, steps(farthest, centre.latitude));
        if cell.steps > 1 && !neighbours_cover(cell, bounds) {
            cell = Cell::of(centre, LATITUDES, cell.steps - 1);
        }
        let mut cells: Vec<Cell> = Vec::new();
        for neighbour in needed(cell, bounds) {
            // Of few cells some are neighbours on both sides.
            let before = cells.last().filter(|_| cells.len() > 1);
            if before != Some(&neighbour) {
                cells.push(neighbour);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }
}

/// Bits of cells whose neighbours are enough for this distance.
fn steps(mut metres: f64, latitude: f64) -> u32 {
    if metres == 0.0 {
        return STEPS;
    }
    let mut steps: i64 = 1;
    while metres < MERCATOR_MAX {
        metres *= 2.0;
        steps += 1;
    }
    steps -= 2;
    // Cells are narrower towards the poles.
    steps -= i64::from(latitude.abs() > 66.0) + i64::from(latitude.abs() > 80.0);
    steps.clamp(1, STEPS.into()) as u32
}

/// Do the cell and its neighbours have all of these longitudes and latitudes?
fn neighbours_cover(cell: Cell, (longitudes, latitudes): (Span, Span)) -> bool {
    let spans = |east, north| cell.neighbour(east, north).spans();
    spans(0, 1).1.max >= latitudes.max
        && spans(0, -1).1.min <= latitudes.min
        && spans(1, 0).0.max >= longitudes.max
        && spans(-1, 0).0.min <= longitudes.min
}

/// The cell and those of its neighbours that may have some of these longitudes and latitudes.
fn needed(cell: Cell, (longitudes, latitudes): (Span, Span)) -> Vec<Cell> {
    const AROUND: [(i64, i64); 8] = [
        (0, 1),
        (0, -1),
        (1, 0),
        (-1, 0),
        (1, 1),
        (-1, 1),
        (1, -1),
        (-1, -1),
    ];
    let (own_longitudes, own_latitudes) = cell.spans();
    let is_needless = |&(east, north): &(i64, i64)| {
        cell.steps >= 2
            && ((north < 0 && own_latitudes.min < latitudes.min)
                || (north > 0 && own_latitudes.max > latitudes.max)
                || (east < 0 && own_longitudes.min < longitudes.min)
                || (east > 0 && own_longitudes.max > longitudes.max))
    };
    let around = AROUND.iter().filter(|side| !is_needless(side));
    let around = around.map(|&(east, north)| cell.neighbour(east, north));
    std::iter::once(cell).chain(around).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Place = Place {
        longitude: 13.361_389,
        latitude: 38.115_556,
    };
    const CATANIA: Place = Place {
        longitude: 15.087_269,
        latitude: 37.502_669,
    };

    #[test]
    fn scores_letters_and_distances_of_the_manual() {
        assert_eq!(PALERMO.score(), 3_479_099_956_230_698.0);
        assert_eq!(CATANIA.score(), 3_479_447_370_796_909.0);
        let [palermo, catania] = [PALERMO, CATANIA].map(|place| Place::of_score(place.score()));
        assert_eq!(palermo.letters(), "sqc8b49rny0");
        assert_eq!(catania.letters(), "sqdtr74hyu0");
        assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
    }

    #[test]
    fn coordinates_and_bits() {
        for number in [0, 1, 0xdead_beef, u32::MAX] {
            assert_eq!(gather(spread(number)), number);
        }
        let cell = Cell::of(PALERMO, LATITUDES, 10);
        for (east, north) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1)] {
            assert_eq!(cell.neighbour(east, north).neighbour(-east, -north), cell);
        }
    }

    #[test]
    fn ranges_have_all_places_within() {
        let mut seed = 1u64;
        let mut random = |span: Span| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            span.min + (seed >> 11) as f64 / (1u64 << 53) as f64 * (span.max - span.min)
        };
        let near = Span {
            min: -60.0,
            max: 60.0,
        };
        for _ in 0..20_000 {
            let centre = Place {
                longitude: random(near),
                latitude: random(near),
            };
            let away = Span {
                min: -1.0,
                max: 1.0,
            };
            let place = Place {
                longitude: centre.longitude + random(away),
                latitude: centre.latitude + random(away),
            };
            let place = Place::of_score(place.score());
            let radius = random(Span {
                min: 0.0,
                max: 200_000.0,
            });
            for shape in [
                Shape::Circle { radius },
                Shape::Box {
                    width: radius,
                    height: 2.0 * radius,
                },
            ] {
                let ranges = shape.ranges(centre);
                let is_found = ranges
                    .iter()
                    .any(|(min, max)| (*min..*max).contains(&place.score()));
                assert!(
                    is_found || shape.distance(centre, place).is_none(),
                    "{centre:?} {place:?}"
                );
            }
        }
    }
}

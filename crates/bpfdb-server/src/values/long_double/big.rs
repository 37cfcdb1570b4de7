//! Natural numbers of any size, as far as they are needed here.

/// Digits of 32 bits, the lowest first, no zeros at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Big(Vec<u32>);

/// The lower part of a number: its bits, and how many there are.
pub(super) struct Rest {
    low: Big,
    bits: u32,
}

impl From<u64> for Big {
    fn from(value: u64) -> Self {
        Self(vec![value as u32, (value >> 32) as u32]).trimmed()
    }
}

impl Big {
    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bits(&self) -> u32 {
        let top = self.0.last().map_or(0, |top| 32 - top.leading_zeros());
        32 * (self.0.len() as u32).saturating_sub(1) + top
    }

    pub(super) fn low_64(&self) -> u64 {
        let digit = |i: usize| u64::from(self.0.get(i).copied().unwrap_or(0));
        digit(1) << 32 | digit(0)
    }

    pub(super) fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides; the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for digit in self.0.iter_mut().rev() {
            let dividend = rest << 32 | u64::from(*digit);
            *digit = (dividend / u64::from(divisor)) as u32;
            rest = dividend % u64::from(divisor);
        }
        *self = std::mem::take(self).trimmed();
        rest as u32
    }

    pub(super) fn multiply_by_power_of_10(&mut self, power: u32) {
        powers_of_10(power).for_each(|factor| self.multiply_add(factor, 0));
    }

    /// Divides; was there a remainder?
    pub(super) fn divide_by_power_of_10(&mut self, power: u32) -> bool {
        powers_of_10(power).fold(false, |rest, divisor| (self.divide(divisor) != 0) | rest)
    }

    pub(super) fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1 << (bits % 32), 0);
        if !self.is_zero() {
            let zeros = std::iter::repeat_n(0, (bits / 32) as usize);
            self.0.splice(0..0, zeros);
        }
    }

    /// The part above the lowest `bits`, at most 64 bits long, and the rest.
    pub(super) fn split(&self, bits: u32) -> (u64, Rest) {
        let (whole, part) = ((bits / 32) as usize, bits % 32);
        let digit = |i: usize| u128::from(self.0.get(whole + i).copied().unwrap_or(0));
        let top = (digit(2) << 64 | digit(1) << 32 | digit(0)) >> part;

        let mut low = self.0[..whole].to_vec();
        low.push(self.0.get(whole).copied().unwrap_or(0) & ((1u64 << part) - 1) as u32);
        let low = Self(low).trimmed();
        (top as u64, Rest { low, bits })
    }

    pub(super) fn is_less_than(&self, other: &Self) -> bool {
        let key = |big: &Self| (big.0.len(), big.0.iter().rev().copied().collect::<Vec<_>>());
        key(self) < key(other)
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut sum = Vec::new();
        for i in 0..self.0.len().max(other.0.len()) {
            let digit = |big: &Self| u64::from(big.0.get(i).copied().unwrap_or(0));
            carry += digit(self) + digit(other);
            sum.push(carry as u32);
            carry >>= 32;
        }
        sum.push(carry as u32);
        Self(sum).trimmed()
    }

    /// The other is not greater.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut borrow = 0;
        let difference = self.0.iter().enumerate().map(|(i, &digit)| {
            let other = other.0.get(i).copied().unwrap_or(0);
            let result = i64::from(digit) - i64::from(other) - borrow;
            borrow = i64::from(result < 0);
            result as u32
        });
        Self(difference.collect()).trimmed()
    }

    pub(super) fn to_decimal(&self) -> String {
        const GROUP: u32 = 1_000_000_000;
        let (mut number, mut groups) = (self.clone(), Vec::new());
        while !number.is_zero() {
            groups.push(number.divide(GROUP));
        }
        let first = groups.pop().unwrap_or(0).to_string();
        groups
            .iter()
            .rev()
            .fold(first, |text, group| text + &format!("{group:09}"))
    }
}

impl Rest {
    /// Is it rounded up? At exactly the half only if the part above is odd.
    pub(super) fn is_above_half(&self, more: bool, odd: bool) -> bool {
        if self.low.bits() < self.bits {
            return false;
        }
        let only_the_half = self
            .low
            .0
            .iter()
            .map(|digit| digit.count_ones())
            .sum::<u32>()
            == 1;
        !only_the_half || more || odd
    }
}

/// Factors that fit 32 bits, whose product is that power.
fn powers_of_10(power: u32) -> impl Iterator<Item = u32> {
    (0..power)
        .step_by(9)
        .map(move |i| 10u32.pow((power - i).min(9)))
}

#[cfg(test)]
mod tests {
    use super::Big;

    fn power_of_2(power: u32) -> Big {
        let mut big = Big::from(1);
        big.shift_left(power);
        big
    }

    #[test]
    fn decimal_text() {
        assert_eq!(Big::from(0).to_decimal(), "0");
        assert_eq!(Big::from(u64::MAX).to_decimal(), u64::MAX.to_string());
        assert_eq!(power_of_2(100).to_decimal(), (1u128 << 100).to_string());
        assert_eq!(power_of_2(64).bits(), 65);
    }

    #[test]
    fn sums_and_differences() {
        let (a, b) = (power_of_2(96), Big::from(1));
        let difference = a.minus(&b);
        assert_eq!(difference.to_decimal(), ((1u128 << 96) - 1).to_string());
        assert_eq!(difference.plus(&b), a);
        assert!(b.is_less_than(&a) && !a.is_less_than(&a));
    }

    #[test]
    fn powers_of_ten() {
        let mut big = Big::from(7);
        big.multiply_by_power_of_10(30);
        assert_eq!(big.to_decimal(), format!("7{}", "0".repeat(30)));
        assert!(!big.divide_by_power_of_10(30));
        assert_eq!(big, Big::from(7));
        assert!(big.divide_by_power_of_10(1));
    }

    #[test]
    fn parts() {
        let mut big = Big::from(u64::MAX);
        big.shift_left(40);
        let (top, rest) = big.split(40);
        assert_eq!(top, u64::MAX);
        assert!(!rest.is_above_half(true, true));
        let (_, rest) = Big::from(0b1100).split(3);
        assert!(!rest.is_above_half(false, false) && rest.is_above_half(false, true));
        let (_, rest) = Big::from(0b1101).split(3);
        assert!(rest.is_above_half(false, false));
    }
}

// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! The keys and values of db_bench.

pub const VALUE_BYTES: usize = 1 << 20;
const PIECE_BYTES: usize = 100;
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64, the generator of db_bench.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number in [0, n).
    pub fn uniform(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Writes key number `number`: its lowest bytes, up to eight, highest first.
/// The rest of the key is '0' already.
pub fn set_key(number: u64, key: &mut [u8]) {
    let digits = number.to_be_bytes();
    let used = key.len().min(8);
    key[..used].copy_from_slice(&digits[8 - used..]);
}

/// Returns printable bytes, of which compression reduces each 100 to about
/// `ratio` of their size.
pub fn compressible_bytes(seed: u64, ratio: f64, size: usize) -> Vec<u8> {
    let random_bytes = ((ratio * PIECE_BYTES as f64) as usize).max(1);
    let mut random = Random(seed);
    let mut result = Vec::with_capacity(size + PIECE_BYTES);
    while result.len() < size {
        let start = result.len();
        for i in 0..PIECE_BYTES {
            result.push(if i < random_bytes {
                b' ' + random.uniform(95) as u8
            } else {
                result[start + i - random_bytes]
            });
        }
    }
    result.truncate(size);
    result
}

/// Returns values, as consecutive pieces of the bytes.
pub struct ValueSource<'a> {
    pub bytes: &'a [u8],
    pub size: usize,
    pub position: usize,
}

impl<'a> ValueSource<'a> {
    pub fn next(&mut self) -> &'a [u8] {
        if self.position + self.size > self.bytes.len() {
            self.position = 0;
        }
        let value = &self.bytes[self.position..self.position + self.size];
        self.position += self.size;
        value
    }
}

/// The numbers [0, size) in random order, each once. A Feistel network permutes
/// the next power of four.
pub struct Permutation {
    size: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    pub fn new(size: u64, seed: u64) -> Self {
        let mut half_bits = 1;
        while 1u64 << (2 * half_bits) < size {
            half_bits += 1;
        }
        let mut random = Random(seed);
        let keys = std::array::from_fn(|_| random.next());
        Permutation { size, half_bits, keys }
    }

    pub fn at(&self, index: u64) -> u64 {
        let mut number = index;
        loop {
            number = self.permute(number);
            if number < self.size {
                return number;
            }
        }
    }

    fn permute(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            let mut mixed = (right ^ key).wrapping_mul(GOLDEN_GAMMA);
            mixed ^= mixed >> 32;
            mixed = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
            let next = left ^ (mixed & mask);
            left = right;
            right = next;
        }
        left << self.half_bits | right
    }
}

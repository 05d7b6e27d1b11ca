//! Cuts and pastes: what pieces have of a box, copied there.

use super::boxes::FieldsCopy;
use crate::error::Cause;
use ein_ir::monoid::Form;
use ein_ir::region::Region;

/// A cut or paste, made ready: what is copied from where, which does not depend on values.
pub(crate) struct Paste(Vec<(usize, FieldsCopy)>);

impl Paste {
    /// Of the box `region`, stored as `form`, `there` elements of which are there, from pieces of these regions and forms.
    ///
    /// # Errors
    ///
    /// Pieces that are stored otherwise, or that do not fill the box.
    pub(crate) fn new(pieces: &[(&Region, &Form)], there: usize, region: &Region, form: &Form) -> Result<Self, Cause> {
        let covered: usize = there + pieces.iter().map(|p| p.0.overlap(region)).sum::<usize>();
        if covered != region.volume() {
            return Err(Cause::malformed(format!("{covered} elements of {region} are given")));
        }
        if pieces.iter().any(|p| p.1 != form) {
            return Err(Cause::malformed("pieces of one value are stored in different forms"));
        }
        let copy = |(n, (own, _)): (usize, &(&Region, &Form))| {
            Some((n, FieldsCopy::new(form, own, region, &own.intersect(region)?)))
        };
        Ok(Self(pieces.iter().enumerate().filter_map(copy).collect()))
    }

    /// Copies, from the bytes of the pieces to those of the box.
    pub(crate) fn run(&self, pieces: &[&[u8]], result: &mut [u8]) {
        for (n, copy) in &self.0 {
            copy.run(pieces[*n], result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::monoid::Monoid;

    #[test]
    fn pieces_must_fill_the_box_in_its_form() {
        let (left, right, all) = ([(0, 2), (0, 1)], [(0, 2), (1, 3)], [(0, 2), (0, 3)]);
        let [left, right, all] = [left, right, all].map(|r| Region::of(&r));
        let form = Form::finished(DType::F32, 2);
        let paste = |pieces: &[(&Region, &Form)], there| Paste::new(pieces, there, &all, &form);
        let words = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let mut out = words(&[0.0; 6]);
        let given = [words(&[1.0, 4.0]), words(&[2.0, 3.0, 5.0, 6.0])];
        let both = paste(&[(&left, &form), (&right, &form)], 0).expect("they fill it");
        both.run(&[&given[0], &given[1]], &mut out);
        assert_eq!(out, words(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        assert!(paste(&[(&right, &form)], 2).is_ok());
        let told = |pieces: &[(&Region, &Form)]| paste(pieces, 0).err().expect("refused").to_string();
        assert!(told(&[(&right, &form)]).contains("4 elements of [0:2,0:3] are given"));
        let pending = Monoid::Moments.pending(DType::F32, 2, false);
        assert!(told(&[(&left, &form), (&right, &pending)]).contains("different forms"));
    }
}

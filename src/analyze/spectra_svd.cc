#include "analyze/spectra_svd.h"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cstdint>

namespace headwise::analyze {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Qr = Eigen::HouseholderQR<MatrixXd>;

// The rows of R that can be other than 0.
MatrixXd upper_part(const Qr& qr) {
  const Index rows = std::min(qr.rows(), qr.cols());
  return qr.matrixQR().topRows(rows).triangularView<Eigen::Upper>();
}

// Q·[small; 0]: the reflections are applied to `small` alone, Q is never formed.
MatrixXd lift(const Qr& qr, const MatrixXd& small) {
  MatrixXd lifted = MatrixXd::Zero(qr.rows(), small.cols());
  lifted.topRows(small.rows()) = small;
  lifted.applyOnTheLeft(qr.householderQ());
  return lifted;
}

}  // namespace

ProductSvd svd_of_product(const MatrixXd& a, const MatrixXd& b) {
  const Qr a_qr(a);
  const Qr b_qr(b);
  const MatrixXd core = upper_part(a_qr) * upper_part(b_qr).transpose();
  // Not Eigen's BDCSVD: 4 times as fast for 128×128, a third of the whole work, but in version 3.4 its
  // vectors are not orthogonal for some cores of low rank, and small values are off by 1e-10.
  const Eigen::JacobiSVD<MatrixXd> svd(core, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {lift(a_qr, svd.matrixU()), svd.singularValues(), lift(b_qr, svd.matrixV())};
}

MatrixXd to_matrix(const ConstView& view) {
  MatrixXd matrix(view.extent(0), view.extent(1));
  for (std::int64_t i = 0; i < view.extent(0); ++i) {
    for (std::int64_t j = 0; j < view.extent(1); ++j) {
      matrix(i, j) = static_cast<double>(view(i, j));
    }
  }
  return matrix;
}

}  // namespace headwise::analyze

//! Every registered filter against everything that it claims.

use tamis_conformance::suite;

tamis::registry!(suite);

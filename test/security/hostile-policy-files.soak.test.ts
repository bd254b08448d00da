/** Runs hostile-policy-files.test.ts with a stricter bound for delays. */

import './hostile-policy-files.test.ts'

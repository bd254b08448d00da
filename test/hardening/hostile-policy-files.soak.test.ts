/** How long requests are held up is measured more strictly. */

import './hostile-policy-files.test.ts'

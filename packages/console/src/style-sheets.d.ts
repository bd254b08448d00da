/** Style sheets, which the build turns into files. */
declare module '*.css'

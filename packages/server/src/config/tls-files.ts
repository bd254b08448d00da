/** Certificates and keys from files. */

import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { readSmallFile } from './read-file.ts'
import { signatureOf, WatchedFiles } from './watched-files.ts'

/** Paths of PEM files. */
export interface TlsFiles {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

export interface TlsContents {
  readonly ca: Buffer | undefined
  readonly cert: Buffer | undefined
  readonly key: Buffer | undefined
}

/** Throws if a file cannot be read. Relative paths begin at `folder`. */
export function readTlsFiles({ ca, cert, key }: TlsFiles, folder = ''): TlsContents {
  const read = (file: string | undefined) =>
    file === undefined ? undefined : readTlsFile(file, folder)
  return { ca: read(ca), cert: read(cert), key: read(key) }
}

export function readTlsFile(file: string, folder: string): Buffer {
  return readSmallFile(resolve(folder, file))
}

/** Throws if OpenSSL does not accept the contents. `place` is that of the files in a policy. */
export function checkTls(contents: TlsContents, place: string): void {
  try {
    createSecureContext(contents)
  } catch (cause) {
    throw new Error(`${place}: not a valid certificate or key`, { cause })
  }
}

/** Returns one line for each file that cannot be used. `place` is that of the files in a policy. */
export function tlsProblems(place: string, files: TlsFiles, folder: string): string[] {
  const { ca, cert, key } = files
  const problems: string[] = []
  const check = (label: string, used: TlsFiles) => {
    const problem = problemOf(() => createSecureContext(readTlsFiles(used, folder)))
    if (problem !== undefined) problems.push(`${place}${label}: ${problem}`)
    return problem === undefined
  }
  if (ca !== undefined) check(`, certificates ${ca}`, { ca })
  const isCertValid = cert !== undefined && check(`.cert ${cert}`, { cert })
  // A key has to fit its certificate, unless that is reported already.
  if (key !== undefined) check(`.key ${key}`, isCertValid ? { cert, key } : { key })
  return problems
}

/** Returns the reason why `use` throws, in one line; OpenSSL and parsers describe it briefly. */
export function problemOf(use: () => unknown): string | undefined {
  try {
    use()
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return 'there is no such file'
    const [line = ''] = message.split('\n')
    return `cannot be used: ${line.replace(/^error:[0-9A-F]+:/, '')}`
  }
}

/**
 * Calls `apply` with the contents now, and when a file changes. A certificate and its key are
 * replaced one after the other: if `apply` throws because they do not fit, the next poll tries
 * again. Returns a function that ends it.
 */
export function followTlsFiles(
  files: TlsFiles,
  apply: (contents: TlsContents) => void,
): () => void {
  const paths = [files.cert, files.key, files.ca]
    .filter((file) => file !== undefined)
    .map((file) => resolve(file))
  // Applied once at the start: the files may have changed since the listener read them.
  let applied = ''
  const check = async () => {
    const signature = await signatureOf(paths)
    if (signature === applied) return
    try {
      apply(readTlsFiles(files))
      applied = signature
    } catch {
      // The live certificate stays, and the next poll tries again.
    }
  }
  const watched = new WatchedFiles(paths, () => void check())
  void check()
  return () => watched.close()
}

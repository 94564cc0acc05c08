import { setupManifest } from '@start9labs/start-sdk'

export const manifest = setupManifest({
  id: 'apus',
  title: 'Apus',
  license: 'MIT OR Apache-2.0',
  packageRepo: '',
  upstreamRepo: '',
  marketingUrl: '',
  donationUrl: null,
  description: {
    short: 'The fastest way from Bitcoin blocks to a verified UTXO set',
    long:
      'Apus checks blocks by the rules of Bitcoin Core and writes a Bitcoin Core data directory, from which ' +
      'bitcoind v31 continues with nothing to import or convert.',
  },
  volumes: ['main'],
  images: {
    apus: {
      source: { dockerTag: 'apus:0.1.0' },
      arch: ['x86_64'],
    },
  },
  dependencies: {},
})
